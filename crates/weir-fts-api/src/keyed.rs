//! Objects of which a client asks for some keys.

use serde::ser::SerializeMap;

/// An object whose keys are written one by one, all of them or some.
pub trait Keyed {
    /// Its keys, in FTS3's order.
    const KEYS: &'static [&'static str];

    /// Writes one key; nothing if there is no such key.
    ///
    /// # Errors
    /// The serializer cannot write it.
    fn write<M: SerializeMap>(&self, map: &mut M, key: &str) -> Result<(), M::Error>;
}

/// Takes `required` out of a schema: each key may be left out.
pub(crate) fn all_optional(schema: &mut schemars::Schema) {
    schema.remove("required");
}

/// Declares an object of optional keys, which serialises all of them, with null for those that have no value. Keys
/// under `beside` come with the object where the request asks for them, and are no keys of it.
macro_rules! keyed {
    (
        $(#[$meta:meta])* pub struct $name:ident<'a> { $($(#[$key_meta:meta])* pub $key:ident: $type:ty,)* }
        $(beside { $($(#[$more_meta:meta])* pub $more:ident: $more_type:ty,)* })?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default)]
        #[schemars(transform = $crate::keyed::all_optional)]
        pub struct $name<'a> {
            $($(#[$key_meta])* pub $key: Option<$type>,)*
            $($($(#[$more_meta])* pub $more: Option<$more_type>,)*)?
        }

        impl $crate::keyed::Keyed for $name<'_> {
            const KEYS: &'static [&'static str] = &[$(stringify!($key)),*];

            fn write<M: serde::ser::SerializeMap>(&self, map: &mut M, key: &str) -> Result<(), M::Error> {
                match key {
                    $(stringify!($key) => map.serialize_entry(key, &self.$key),)*
                    _ => Ok(()),
                }
            }
        }
    };
}
pub(crate) use keyed;
