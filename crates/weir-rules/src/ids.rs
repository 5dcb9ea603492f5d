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
    /// A rule. Shown as 32 hexadecimal digits.
    RuleId(u128)
}
id! {
    /// A request. Shown as 32 hexadecimal digits.
    RequestId(u128)
}
