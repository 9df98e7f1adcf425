//! What is in a hyper-cubic grid, and how does one get from here to there?
