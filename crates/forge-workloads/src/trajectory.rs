//! Where does a ball fly?
