//! The ids of requests that clients and transfer services see.

use weir_database::{Session, values};
use weir_rules::ids::RequestId;
use weir_store::StoreError;

/// A number that tells this catalogue from others that use the same transfer service: random, made with the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(u32);

impl Tag {
    /// The tag of this number.
    pub fn new(number: u32) -> Self {
        Self(number)
    }

    /// A random one, for a database that has none.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn fresh() -> Result<u32, StoreError> {
        let mut bytes = [0; 4];
        let failed = |_| StoreError::Broken("there are no random numbers".into());
        aws_lc_rs::rand::fill(&mut bytes).map_err(failed)?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// The tag of this database, made of the fresh number if it has none.
    ///
    /// # Errors
    /// The database fails.
    pub fn of(session: &mut dyn Session, fresh: u32) -> Result<Self, StoreError> {
        let text = "INSERT INTO about (key, value) VALUES ('tag', $1) ON CONFLICT (key) DO NOTHING";
        session.execute(text, &values![format!("{fresh:08x}")])?;
        let row = session.row("SELECT value FROM about WHERE key = 'tag'", &[])?;
        let unreadable = || StoreError::Unreadable("the tag of the catalogue".into());
        let row = row.ok_or_else(unreadable)?;
        u32::from_str_radix(row.text(0)?, 16)
            .map(Self)
            .map_err(|_| unreadable())
    }

    /// The id of an attempt, as Rucio writes it: 32 hexadecimal digits. Rucio gives each attempt an id of its own.
    pub fn uid(self, request: RequestId, number: u64) -> String {
        format!("{:08x}{:016x}{:08x}", self.0, request.0, number & 0xffff_ffff)
    }

    /// The request and the number of the attempt that an id stands for; `None`: it is none of this catalogue.
    pub fn read(self, uid: &str) -> Option<(RequestId, u64)> {
        let is_one = uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_one || u32::from_str_radix(&uid[..8], 16) != Ok(self.0) {
            return None;
        }
        let request = u64::from_str_radix(&uid[8..24], 16).ok()?;
        let number = u64::from_str_radix(&uid[24..], 16).ok()?;
        // Beyond that no database gives a number.
        i64::try_from(request).ok().map(|_| (RequestId(request), number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_attempt_and_its_catalogue() {
        let tag = Tag(0xbeef);
        let uid = tag.uid(RequestId(7), 2);
        assert_eq!(uid, "0000beef000000000000000700000002");
        assert_eq!(tag.read(&uid), Some((RequestId(7), 2)));
        assert_eq!(Tag(1).read(&uid), None);
        for foreign in [
            "",
            "7",
            "0000beef00000000000000070000000g",
            "0000beefffffffffffffffff00000001",
            "0000beeé0000000000000007000002",
        ] {
            assert_eq!(tag.read(foreign), None, "{foreign}");
        }
    }
}
