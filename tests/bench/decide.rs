//! Nanoseconds of one decision: three limits, one million callers.

mod support;

use criterion::{Criterion, criterion_group, criterion_main};

fn decide(criterion: &mut Criterion) {
    let mut scene = support::Scene::new();
    scene.warm();
    criterion.bench_function("decide/3 limits/1M callers", |bencher| bencher.iter(|| scene.decide()));
}

criterion_group!(benches, decide);
criterion_main!(benches);
