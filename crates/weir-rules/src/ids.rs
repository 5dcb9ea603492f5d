//! Numbers that stand for rows.

macro_rules! id {
    ($(#[$doc:meta])* $type:ident($number:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub $number);
    };
}

id! {
    /// An RSE.
    RseId(u32)
}
id! {
    /// A file, dataset or container.
    DidId(u64)
}
id! {
    /// A rule.
    RuleId(u64)
}
id! {
    /// A request.
    RequestId(u64)
}
