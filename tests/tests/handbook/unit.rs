//! The unit that starts services.

#[test]
fn the_unit_makes_the_folders_that_the_samples_name() {
    // The service would not start, on the first try.
    let unit = include_str!("../../../deploy/weir@.service");
    assert!(unit.lines().any(|line| line == "StateDirectory=weir weir/%i"), "{unit}");
    let samples = [
        ("transfer", include_str!("../../../deploy/transfer.toml"), 4),
        ("issuer", include_str!("../../../deploy/issuer.toml"), 1),
        ("storage", include_str!("../../../deploy/storage.toml"), 0),
    ];
    for (service, sample, least) in samples {
        let below = sample.split("\"/var/lib/weir/").skip(1).collect::<Vec<_>>();
        assert!(below.len() >= least, "{service}");
        assert!(
            below.iter().all(|path| path.starts_with(service)),
            "{service}: {below:?}"
        );
    }
}
