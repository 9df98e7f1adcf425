//! Session: engine properties are passed through, and memory reserved by the engine is subtracted from the budget.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::{sync::Arc, time::Duration};

use gpuforge_runtime::{
    engine::{
        BlockId, Caps, Engine, EngineError, Health, Job, JobOutput, Opener as _, Ticket,
        dummy::{DummyOpener, DummyScript},
        gpu::{GpuEngine, GpuOpener},
    },
    memory::{
        AllocError, AllocRequest, BlockClass, Budget, BudgetOrigin, BudgetSource, MeasuredBudget,
        StackSettings, Tag,
    },
    session::Session,
    units::Bytes,
};

mod gpu_common;
use gpu_common::open;

/// The dummy with reserved memory and a driver budget.
struct WithBudget {
    inner: Arc<dyn Engine>,
    reserved: Bytes,
    budget: Option<MeasuredBudget>,
}

impl Engine for WithBudget {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn reserved(&self) -> Bytes {
        self.reserved
    }

    fn memory_budget(&self) -> Option<MeasuredBudget> {
        self.budget
    }

    fn create(&self, size: Bytes, class: BlockClass) -> Result<BlockId, EngineError> {
        self.inner.create(size, class)
    }

    fn destroy(&self, block: BlockId) {
        self.inner.destroy(block);
    }

    fn submit(&self, job: Job) -> Result<Ticket, EngineError> {
        self.inner.submit(job)
    }

    fn wait(&self, ticket: Ticket, deadline: Duration) -> Result<JobOutput, EngineError> {
        self.inner.wait(ticket, deadline)
    }

    fn health(&self) -> Health {
        self.inner.health()
    }
}

fn dummy() -> Arc<dyn Engine> {
    DummyOpener::new(Bytes::gib(1), DummyScript::default()).open().unwrap()
}

fn session(reserved: Bytes, budget: Option<MeasuredBudget>, given: Budget) -> Session {
    let engine = WithBudget { inner: dummy(), reserved, budget };
    Session::new(Arc::new(engine), StackSettings::new(given))
}

fn user(bytes: Bytes) -> Budget {
    Budget { bytes, origin: BudgetOrigin::User }
}

#[test]
fn staging_and_blocks_share_the_user_limit() {
    let session = session(Bytes::mib(16), None, user(Bytes::mib(64)));
    let stats = session.memory().stats();
    assert_eq!((stats.limit.limit, session.reserved()), (Bytes::mib(48), Bytes::mib(16)));
    assert_eq!(stats.budget, user(Bytes::mib(48)), "pressure is relative to the same number");
    let ask = |mib| {
        let request = AllocRequest { size: Bytes::mib(mib), tag: Tag("test"), class: BlockClass::Storage };
        session.memory().allocate(request)
    };
    let all = ask(48).unwrap();
    assert!(matches!(ask(1), Err(AllocError::Limit { .. })));
    session.memory().release(all);
}

#[test]
fn small_limit_leaves_half_for_blocks() {
    let session = session(Bytes::mib(16), None, user(Bytes::mib(4)));
    assert_eq!(session.memory().stats().limit.limit, Bytes::mib(2));
}

#[test]
fn driver_budget_replaces_only_a_share_of_system_memory() {
    let source = BudgetSource::VulkanMemoryBudget;
    let driver = Some(MeasuredBudget { bytes: Bytes::mib(600), source });
    let share = Budget { bytes: Bytes::gib(15), origin: BudgetOrigin::ShareOfSystem { percent: 50 } };
    let stats = session(Bytes::mib(100), driver, share).memory().stats();
    assert_eq!(stats.budget, Budget { bytes: Bytes::mib(500), origin: BudgetOrigin::Measured(source) });
    assert_eq!(stats.limit.limit, Bytes::mib(475), "95 %, as of every measured budget");
    let stats = session(Bytes::ZERO, driver, user(Bytes::mib(700))).memory().stats();
    assert_eq!(stats.budget, user(Bytes::mib(700)));
    assert_eq!(session(Bytes::ZERO, None, share).memory().stats().budget, share);
}

#[test]
fn dummy_reserves_nothing_and_has_no_loop_limit() {
    let session = Session::new(dummy(), StackSettings::new(user(Bytes::mib(4))));
    assert_eq!((session.loop_iterations(), session.reserved()), (None, Bytes::ZERO));
    assert_eq!(session.memory().stats().limit.limit, Bytes::mib(4));
}

#[test]
fn adapter_loop_limit_is_cached_and_budget_is_queried() {
    let Some(gpu): Option<Arc<GpuEngine>> = open(&GpuOpener::default()) else { return };
    let share = Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::ShareOfSystem { percent: 50 } };
    let session = Session::new(gpu.clone(), StackSettings::new(share));
    assert!(gpu.reserved() > Bytes::ZERO && gpu.reserved() <= Bytes::mib(64), "{}", gpu.reserved());
    let budget = session.memory().stats().budget;
    match gpu.memory_budget() {
        Some(driver) => assert_eq!(budget.origin, BudgetOrigin::Measured(driver.source)),
        None => assert_eq!(budget, Budget { bytes: Bytes(share.bytes.0 - gpu.reserved().0), ..share }),
    }
    let more = Session::new(gpu.clone(), StackSettings::new(user(Bytes::mib(16) + gpu.reserved())));
    assert_eq!(
        more.memory().stats().limit.limit,
        Bytes::mib(16),
        "adding the reserved bytes gives the full limit"
    );
    println!("{}: {:?}, budget {:?}", gpu.caps().name, session.loop_iterations(), gpu.memory_budget());
    let proven = session.loop_iterations().unwrap();
    assert!(proven >= 1 << 14, "{proven}: our kernels rely on that many");
    gpu.lose();
    assert_eq!(session.loop_iterations(), Some(proven), "cached: a lost device cannot be probed");
    let other = open(&GpuOpener::default()).unwrap();
    other.lose();
    let never_asked = Session::new(other, StackSettings::new(share));
    assert_eq!(never_asked.loop_iterations(), None, "a failed probe gives no limit");
}
