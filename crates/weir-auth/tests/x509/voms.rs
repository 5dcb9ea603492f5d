//! VOMS attributes, good and bad: whose word is taken for which groups.

use std::time::SystemTime;

use weir_auth::x509::{ClientCertificates, Identity};

use crate::attributes::{Attributes, FQANS, ac_extension, proxy_with};
use crate::pki::{HOUR, INHERIT_ALL, Party, Site, Wish, der, extension};

const HOST: &str = "voms.example.org";
const SERVER: &str = "/C=XY/O=Grid/CN=voms.example.org";
const AUTHORITY: &str = "/C=XY/O=Grid/CN=Test CA";

struct Scene {
    site: Site,
    user: Party,
    server: Party,
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        site.lsc("dune", HOST, &[SERVER, AUTHORITY]);
        let server = Wish::end_entity(SERVER).signed_by(&site.authority);
        Self {
            user: site.user(),
            server,
            site,
        }
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes::new(&self.user, &self.server)
    }

    fn identity(&self, party: &Party) -> Identity {
        identity(&self.site.open(), party)
    }

    /// A bad certificate leaves an identity without a VO.
    fn left_out(&self, attributes: &Attributes<'_>) {
        let identity = self.identity(&attributes.proxy(&self.user));
        assert_eq!(identity.subject, "/DC=xy/DC=grid/OU=People/CN=Ada Lovelace");
        assert_eq!(identity.voms, [], "taken");
    }
}

fn identity(certificates: &ClientCertificates, party: &Party) -> Identity {
    Identity::clone(&certificates.verify(&party.der(), SystemTime::now()).unwrap())
}

/// No user would be of any VO; or the FQANs would be in another order, and with them the primary group.
#[test]
fn a_good_attribute_certificate_gives_vo_and_fqans() {
    let scene = Scene::new();
    let party = scene.attributes().proxy(&scene.user);
    let further = Wish::proxy(&party, "2", INHERIT_ALL, None).signed_by(&party);
    let by_subject = Attributes {
        by_issuer: false,
        ..scene.attributes()
    };
    for party in [&party, &further, &by_subject.proxy(&scene.user)] {
        let identity = scene.identity(party);
        let [voms] = &identity.voms[..] else {
            panic!("{:?}", identity.voms)
        };
        assert_eq!(
            (voms.vo.as_str(), voms.host.as_str(), voms.issuer.as_str()),
            ("dune", HOST, SERVER)
        );
        assert_eq!(voms.serial, "1234");
        assert_eq!(identity.vo(), Some("dune"));
        assert_eq!(identity.fqans().collect::<Vec<_>>(), FQANS);
    }
}

/// A user could carry attributes of somebody else, of long ago, for elsewhere, or of a server of their own.
#[test]
fn bad_attribute_certificates_are_left_out() {
    let scene = Scene::new();
    let good = || scene.attributes();
    assert_eq!(
        scene.identity(&good().proxy(&scene.user)).vo(),
        Some("dune"),
        "the rest would prove nothing"
    );

    let mut other = Wish::end_entity("/DC=xy/DC=grid/OU=People/CN=Grace Hopper");
    other.serial = 8;
    let other = other.signed_by(&scene.site.authority);
    let mut same_serial = Wish::end_entity("/DC=xy/DC=grid/OU=People/CN=Grace Hopper");
    same_serial.serial = 7;
    let same_serial = same_serial.signed_by(&Wish::authority("/C=XY/O=Other/CN=Other CA").root());
    for by_issuer in [true, false] {
        for other in [&other, &same_serial] {
            scene.left_out(&Attributes {
                holder: other.certificate(),
                by_issuer,
                ..good()
            });
        }
    }
    for valid in [(-2 * HOUR, -HOUR), (HOUR, 2 * HOUR)] {
        scene.left_out(&Attributes { valid, ..good() });
    }
    for authority in [
        "cms://voms.example.org:15000",
        "dune://other.example.org:15000",
        "dune",
        "://x:1",
        "../dune://x:1",
    ] {
        scene.left_out(&Attributes { authority, ..good() });
    }
    for fqan in ["/cms/Role=NULL", "/dunes", "dune", "", "/dune/a b", "/dune/\u{e9}"] {
        let fqans = vec![FQANS[0], fqan];
        scene.left_out(&Attributes { fqans, ..good() });
    }
    for algorithm in ["1.2.840.10045.4.1", "1.2.840.10045.4.3.3", "1.2.840.113549.1.1.4"] {
        scene.left_out(&Attributes { algorithm, ..good() });
    }
    let extensions = vec![ac_extension("1.2.3.4", true, &[5, 0])];
    scene.left_out(&Attributes { extensions, ..good() });
}

/// A holder of some certificate of a trusted authority could vouch for membership of any VO.
#[test]
fn only_the_server_of_the_lsc_file_is_believed() {
    let scene = Scene::new();
    let check = |server: &Party, taken: bool| {
        let party = Attributes::new(&scene.user, server).proxy(&scene.user);
        assert_eq!(scene.identity(&party).vo().is_some(), taken);
    };
    check(&scene.server, true);
    let authority = &scene.site.authority;
    check(
        &Wish::end_entity("/C=XY/O=Grid/CN=another.example.org").signed_by(authority),
        false,
    );
    let stranger = Wish::authority(AUTHORITY).root();
    check(&Wish::end_entity(SERVER).signed_by(&stranger), false);
    // Of the right name by another authority that is trusted too.
    let second = Wish::authority("/C=XY/O=Grid/CN=Second CA").root();
    scene.site.trust(&second, "second.pem");
    check(&Wish::end_entity(SERVER).signed_by(&second), false);
    check(
        &Wish::end_entity(SERVER).valid(-2 * HOUR, -HOUR).signed_by(authority),
        false,
    );
    // A proxy of the server is not the server.
    check(
        &Wish::proxy(&scene.server, "1", INHERIT_ALL, None).signed_by(&scene.server),
        false,
    );
    // The server's certificate with another's key.
    let thief = Party {
        key: scene.user.key.clone(),
        ..scene.server.clone()
    };
    check(&thief, false);

    let below = Wish::authority("/C=XY/O=Grid/CN=Sub CA").signed_by(authority);
    let server = Wish::end_entity(SERVER).signed_by(&below);
    check(&server, false);
    scene
        .site
        .lsc("dune", HOST, &[SERVER, "/C=XY/O=Grid/CN=Sub CA", AUTHORITY]);
    check(&server, true);
    scene.site.lsc("dune", HOST, &[SERVER]);
    check(&server, false);
}

/// Attributes for one host would count at all others.
#[test]
fn targets_name_the_hosts_that_may_take_it() {
    let scene = Scene::new();
    let uri = der(0x86, &[b"storage.example.org"]);
    let targets = der(0x30, &[&der(0x30, &[&der(0xa0, &[&uri])])]);
    let attributes = Attributes {
        extensions: vec![ac_extension("2.5.29.55", true, &targets)],
        ..scene.attributes()
    };
    scene.left_out(&attributes);
    for (name, taken) in [
        ("Storage.example.org", true),
        ("other.example.org", false),
        ("example.org", false),
    ] {
        let mut config = scene.site.config();
        config.host_names = vec![name.to_owned()];
        let certificates = ClientCertificates::open(config, SystemTime::now()).unwrap();
        let identity = identity(&certificates, &attributes.proxy(&scene.user));
        assert_eq!(identity.vo().is_some(), taken, "{name}");
    }
}

/// A flipped bit in the attributes would go unseen, or bring the door down.
#[test]
fn a_tampered_attribute_certificate_is_left_out() {
    let scene = Scene::new();
    let certificates = scene.site.open();
    let good = scene.attributes().certificate();
    for place in 0..good.len() {
        let mut bytes = good.clone();
        bytes[place] ^= 1;
        let identity = identity(&certificates, &proxy_with(&scene.user, &[bytes]));
        assert_eq!(identity.voms, [], "byte {place}");
    }
    let several = proxy_with(&scene.user, &[der(0x30, &[]), good.clone(), vec![5, 0], good]);
    assert_eq!(
        identity(&certificates, &several).voms.len(),
        2,
        "one bad one would hide the others"
    );
    for value in [vec![], vec![0x30], der(0x30, &[]), der(4, &[b"x"])] {
        let party = Wish::proxy(&scene.user, "1", INHERIT_ALL, None)
            .with(extension("1.3.6.1.4.1.8005.100.100.5", false, &value))
            .signed_by(&scene.user);
        assert_eq!(identity(&certificates, &party).voms, []);
    }
}

/// Without a directory of VOMS servers, somebody's word would be taken unchecked.
#[test]
fn without_a_vomsdir_there_are_no_attributes() {
    let scene = Scene::new();
    let mut config = scene.site.config();
    config.vomsdir = None;
    let certificates = ClientCertificates::open(config, SystemTime::now()).unwrap();
    assert_eq!(identity(&certificates, &scene.attributes().proxy(&scene.user)).voms, []);
}
