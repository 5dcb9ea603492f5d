//! Starting and stopping a grid.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use weir_auth::client::TokenSource;
use weir_http::{Client, Network};
use weir_model::{Grid, Rse, RseKind, RseName};

use crate::access::{CatalogAccess, TransferAccess};
use crate::addresses::{Door, RSES_MAX, behind};
use crate::description::{
    CatalogDescription, ClientDescription, DoorDescription, FILE_NAME, GridDescription, RseDescription, SCHEMA, origin,
};
use crate::disk::Disk;
use crate::fronts::{CATALOG, Relays, in_front_of_others, keep_audiences, relay};
use crate::ground::Ground;
use crate::issuer::{SERVICE_HOST, TokenIssuer};
use crate::limits::{Started, StorageLimits};
use crate::processes::{self, Processes};
use crate::runtime::{not_started, run_on, runtime};
use crate::site_process::SiteProgram;
use crate::user::User;
use crate::{GridError, KindDescription, catalog, configure, doors, reach, site};

/// Longest wait for every door to answer after its service has started.
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two rounds of knocking.
const KNOCK_INTERVAL: Duration = Duration::from_millis(50);

/// How an embedded grid is run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GridOptions {
    /// Threads of the storage endpoints; default: one for each core.
    pub data_threads: usize,
    /// Whether it has a catalogue of its own, if its file names no other; default: none.
    pub catalog: bool,
    /// Runs the storages of each site in a process of their own; default: none, they run in this one.
    pub sites: Option<SiteProgram>,
    /// Makes faults possible: puts a relay in front of each embedded storage, of the issuer and of the catalogue, and of each
    /// door of another program on this machine ([`EmbeddedGrid::relays`]). Storages that run in this process get disks that can
    /// be slow, too ([`EmbeddedGrid::disks`]). Default: none of it.
    pub relays: bool,
}

impl Default for GridOptions {
    fn default() -> Self {
        let data_threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            data_threads,
            catalog: false,
            sites: None,
            relays: false,
        }
    }
}

/// A running grid. Call [`EmbeddedGrid::shutdown`] to let work in hand end; dropping it cuts everything off.
pub struct EmbeddedGrid {
    services: Services,
    description: GridDescription,
    client: Client,
    access: Access,
    renewal: JoinHandle<()>,
    /// The processes of the sites, if they have their own, and their watch.
    watch: Option<(Arc<Processes>, JoinHandle<()>)>,
    relays: Arc<Relays>,
    disks: BTreeMap<String, Arc<Disk>>,
    // Last: the directory is free when everything else is gone.
    ground: Ground,
}

impl fmt::Debug for EmbeddedGrid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EmbeddedGrid")
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}

/// Credentials for the grid's services.
struct Access {
    storage: BTreeMap<RseName, TokenSource>,
    transfer: TransferAccess,
    catalog: Option<CatalogAccess>,
}

/// Running services in shutdown order: producers first.
#[derive(Default)]
struct Services {
    catalog: Option<weir_catalog::Running>,
    transfer: Option<weir_fts::Running>,
    storages: Vec<Started>,
    /// The storages that do not run here.
    sites: Option<Arc<Processes>>,
    issuer: Option<TokenIssuer>,
    /// Where the transfer service runs, and streams copies itself if neither storage can.
    transfer_runtime: Option<Runtime>,
    /// Where the storages run.
    data_runtime: Option<Runtime>,
    relays: Relays,
    disks: BTreeMap<String, Arc<Disk>>,
}

impl EmbeddedGrid {
    /// Starts every service of the grid on this directory and returns when every door answers.
    ///
    /// The calling runtime becomes the control runtime: the issuer and the driver of the grid run there. The storages
    /// share a runtime of their own and the transfer service has another, so that no amount of data stalls a decision,
    /// a progress line or Ctrl-C.
    ///
    /// # Errors
    /// [`GridError`]; services that had been started are stopped again.
    pub async fn start(grid: &Grid, dir: &Path, options: GridOptions) -> Result<Self, GridError> {
        if grid.rses.len() > RSES_MAX {
            return Err(GridError::TooManyRses {
                n_rses: grid.rses.len(),
                max: RSES_MAX,
            });
        }
        let mut ground = Ground::lay(grid, dir)?;
        let orphans = processes::stop_all(&ground.dir).await?;
        if !orphans.is_empty() {
            tracing::warn!(
                sites = orphans.join(", "),
                "stopped the sites of a grid that had been killed"
            );
        }
        let mut services = Services::default();
        let seen = if options.relays {
            in_front_of_others(grid, &mut services.relays).await?
        } else {
            grid.clone()
        };
        let started = services.start(&seen, &mut ground, &options).await;
        let made = match started {
            Ok(mut description) => {
                keep_audiences(grid, &mut description);
                make_ready(&seen, &ground, &mut description, &mut services)
                    .await
                    .map(|(client, access)| (description, client, access))
            }
            Err(error) => Err(error),
        };
        let (description, client, access) = match made {
            Ok(made) => made,
            Err(error) => {
                services.sites = None;
                services.stop().await;
                return Err(error);
            }
        };
        let relays = Arc::new(std::mem::take(&mut services.relays));
        let disks = std::mem::take(&mut services.disks);
        let watch = services
            .sites
            .take()
            .map(|sites| (sites.clone(), tokio::spawn(sites.watch(description.clone()))));
        let lifetime = configure::token_lifetime(grid);
        let renewal = tokio::spawn(keep_token_file_fresh(description.clone(), lifetime / 2));
        tracing::info!(
            name = description.name,
            transfer = description.transfer.url,
            "the grid is ready"
        );
        Ok(Self {
            services,
            description,
            client,
            access,
            renewal,
            watch,
            relays,
            disks,
            ground,
        })
    }

    /// The data that a client needs; the content of `grid.json`.
    pub fn description(&self) -> &GridDescription {
        &self.description
    }

    /// The grid's directory, absolute.
    pub fn dir(&self) -> &Path {
        &self.ground.dir
    }

    /// A client that trusts the authorities of the grid, those of external endpoints included.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The source of tokens for the storage of an RSE: the grid's issuer, or the configured source of an external one.
    /// The audience is in the [`GridDescription`]. `None` if the grid has no such RSE.
    pub fn storage_tokens(&self, rse: &RseName) -> Option<&TokenSource> {
        self.access.storage.get(rse)
    }

    /// The relays in front of its doors, by the names of the RSEs and services ([`ISSUER_DOOR`](crate::ISSUER_DOOR) and others);
    /// empty unless they were asked for.
    pub fn relays(&self) -> &Arc<Relays> {
        &self.relays
    }

    /// The disks of its storages, by the names of the RSEs; empty unless relays were asked for.
    pub fn disks(&self) -> &BTreeMap<String, Arc<Disk>> {
        &self.disks
    }

    /// The limits of its storages, by the names of the RSEs; empty if they run in other processes.
    pub fn limits(&self) -> BTreeMap<String, StorageLimits> {
        let storages = self.services.storages.iter();
        storages
            .map(|storage| (storage.name().to_owned(), storage.limits()))
            .collect()
    }

    /// The processes of its sites; none if the storages run in this one.
    pub fn processes(&self) -> Option<&Arc<Processes>> {
        self.watch.as_ref().map(|(processes, _)| processes)
    }

    /// The database of the transfer service, if the grid has its own.
    pub fn transfer_store(&self) -> Option<PathBuf> {
        let is_own = self.services.transfer.is_some();
        is_own.then(|| configure::transfer_store(&self.ground.dir))
    }

    /// URL and credential of the transfer service.
    pub fn transfer(&self) -> &TransferAccess {
        &self.access.transfer
    }

    /// URL and credentials of the catalogue, if the grid has one.
    pub fn catalog(&self) -> Option<&CatalogAccess> {
        self.access.catalog.as_ref()
    }

    /// Stops producers first, then the services that they use: transfer service, storages, issuer. Work in hand may end
    /// within the grace of each.
    ///
    /// # Errors
    /// [`GridError::Access`] if the description could not be removed; everything is stopped all the same.
    pub async fn shutdown(self) -> Result<(), GridError> {
        self.renewal.abort();
        let has_processes = self.watch.is_some();
        if let Some((_, watch)) = self.watch {
            watch.abort();
            // It may be writing the description.
            let _aborted = watch.await;
        }
        let removed = GridDescription::remove(&self.ground.dir);
        let mut services = self.services;
        services.stop_central().await;
        let stopped = if has_processes {
            processes::stop_all(&self.ground.dir).await.map(drop)
        } else {
            Ok(())
        };
        services.stop().await;
        tracing::info!(name = self.description.name, "the grid has stopped");
        removed.and(stopped)
    }
}

/// Where each embedded RSE answers, by name.
fn listen_of_each(grid: &Grid, ground: &mut Ground) -> Result<BTreeMap<String, SocketAddr>, GridError> {
    let mut listens = BTreeMap::new();
    for rse in &grid.rses {
        let RseKind::Embedded { place, .. } = &rse.kind else {
            continue;
        };
        let name = rse.name.as_str();
        let listen = match place {
            Some(place) => ground.addresses.place(name, place)?,
            None => ground.addresses.choose(name, ground.addresses.host_of(name)?)?,
        };
        listens.insert(name.to_owned(), listen);
    }
    Ok(listens)
}

impl Services {
    /// Starts all services, bottom up; returns their description.
    async fn start(
        &mut self,
        grid: &Grid,
        ground: &mut Ground,
        options: &GridOptions,
    ) -> Result<GridDescription, GridError> {
        let client = ground.client()?;
        let relays = options.relays.then_some(&mut self.relays);
        let issuer = TokenIssuer::start(grid, ground, &client, relays).await?;
        let issuer = self.issuer.insert(issuer);
        let issuer_url = issuer.url.clone();
        let (issuer_door, issuer_client) = issuer.describe();

        let user = User::make(grid, ground)?;
        let listens = listen_of_each(grid, ground)?;
        let reach = reach::storages(grid, listens.values().map(SocketAddr::ip)).await;
        let mut inner = BTreeMap::new();
        for rse in grid.rses.iter().filter(|rse| rse.kind.is_embedded()) {
            let name = rse.name.as_str();
            let mut door = Door::at(listens[name]);
            ground.addresses.forget(&behind(name));
            if options.relays {
                door = door.behind(ground.addresses.choose(&behind(name), listens[name].ip())?);
                self.relays.insert(name.to_owned(), relay(name, door)?);
            }
            inner.insert(name, door);
        }
        if let Some(program) = &options.sites {
            ground.addresses.save()?;
            self.sites = Some(Arc::new(Processes::start(grid, ground, program)?));
        } else {
            let data = self.data_runtime.insert(runtime("weir-data", options.data_threads)?);
            for rse in grid.rses.iter().filter(|rse| rse.kind.is_embedded()) {
                let name = rse.name.as_str();
                let disk = options.relays.then(Arc::<Disk>::default);
                self.disks.extend(disk.clone().map(|disk| (name.to_owned(), disk)));
                let place = (inner[name], issuer_url.as_str(), reach.as_slice());
                let storage = site::start_storage(data, (ground, &user), (rse, disk), place).await?;
                self.storages.push(storage);
            }
        }
        let rses = grid.rses.iter().map(|rse| describe_rse(ground, rse, &listens));
        let rses = rses.collect::<Result<_, _>>()?;

        let is_elsewhere = grid.catalog.as_ref().is_some_and(|catalog| catalog.service.is_some());
        let catalog = (options.catalog && !is_elsewhere).then(|| self.catalog_door(ground, options.relays));
        let catalog = catalog.transpose()?;
        let transfer = if let Some(external) = &grid.transfer_service {
            DoorDescription {
                url: external.url.clone(),
                kind: KindDescription::External,
            }
        } else {
            let reached = (issuer_url.as_str(), reach.as_slice());
            self.start_transfer((ground, &user), grid, reached, catalog).await?
        };
        let catalog = match catalog {
            Some(door) => {
                let urls = (issuer_url.as_str(), &issuer_client, transfer.url.as_str());
                Some(self.start_catalog((ground, &user), grid, door, urls).await?)
            }
            None => None,
        };
        ground.addresses.save()?;

        Ok(GridDescription {
            schema: SCHEMA.to_owned(),
            name: grid.name.to_string(),
            vo: grid.vo.to_string(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            processes: Vec::new(),
            issuer: issuer_door,
            transfer,
            catalog,
            rses,
            ca: ground.trust.clone(),
            client: issuer_client,
            user: Some(user.description),
            token_file: ground.dir.join("token"),
        })
    }

    async fn start_transfer(
        &mut self,
        (ground, user): (&mut Ground, &User),
        grid: &Grid,
        (issuer_url, reach): (&str, &[Network]),
        catalog: Option<Door>,
    ) -> Result<DoorDescription, GridError> {
        let listen = ground.addresses.choose("transfer", SERVICE_HOST)?;
        let catalog = catalog.map(|door| door.public);
        let config = configure::transfer((ground, user), grid, (listen, catalog), issuer_url, reach)?;
        let transfers = self.transfer_runtime.insert(runtime("weir-transfer", 2)?);
        let transfer = run_on(transfers, weir_fts::TransferService::start(config)).await;
        let transfer = transfer.map_err(|error| not_started("the transfer service", error))?;
        let url = transfer.url().to_owned();
        self.transfer = Some(transfer);
        Ok(DoorDescription {
            url,
            kind: KindDescription::Embedded,
        })
    }

    /// Where the catalogue answers, with its relay if there is to be one.
    fn catalog_door(&mut self, ground: &mut Ground, has_relay: bool) -> Result<Door, GridError> {
        let mut door = Door::at(ground.addresses.choose("catalog", SERVICE_HOST)?);
        if has_relay {
            door = door.behind(ground.addresses.choose(&behind("catalog"), SERVICE_HOST)?);
            self.relays.insert(CATALOG.to_owned(), relay(CATALOG, door)?);
        }
        Ok(door)
    }

    async fn start_catalog(
        &mut self,
        (ground, user): (&mut Ground, &User),
        grid: &Grid,
        door: Door,
        (issuer_url, client, transfer_url): (&str, &ClientDescription, &str),
    ) -> Result<CatalogDescription, GridError> {
        let config = configure::catalog((ground, user), grid, door, (issuer_url, client, transfer_url))?;
        let password_file = config.root.password_file.clone();
        let catalog = weir_catalog::Catalog::start(config).await;
        let catalog = catalog.map_err(|error| not_started("the catalogue", error))?;
        let url = catalog.url().to_owned();
        self.catalog = Some(catalog);
        Ok(CatalogDescription {
            url,
            user: configure::CATALOG_USER.to_owned(),
            password_file,
        })
    }

    /// Stops the services that make requests to the storages.
    async fn stop_central(&mut self) {
        if let Some(catalog) = self.catalog.take() {
            catalog.shutdown().await;
        }
        if let (Some(transfer), Some(runtime)) = (self.transfer.take(), &self.transfer_runtime) {
            run_on(runtime, transfer.shutdown()).await;
        }
    }

    async fn stop(mut self) {
        self.stop_central().await;
        if let Some(runtime) = &self.data_runtime {
            site::stop_storages(runtime, std::mem::take(&mut self.storages)).await;
        }
        if let Some(issuer) = self.issuer.take() {
            issuer.stop().await;
        }
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which is not allowed on another runtime.
        for runtime in [self.transfer_runtime.take(), self.data_runtime.take()]
            .into_iter()
            .flatten()
        {
            runtime.shutdown_background();
        }
    }
}

/// Waits until every door of ours answers, writes the token file and then the description.
async fn make_ready(
    grid: &Grid,
    ground: &Ground,
    description: &mut GridDescription,
    services: &mut Services,
) -> Result<(Client, Access), GridError> {
    let client = ground.client()?;
    let issuer = services.issuer.as_ref().expect("it was started");
    let own = issuer.tokens(&client);
    let elsewhere = grid.catalog.as_ref().and_then(|catalog| catalog.service.as_ref());
    let catalog = match (elsewhere, &description.catalog) {
        (Some(catalog), _) => Some(CatalogAccess::external(catalog, &own, &client)?),
        (None, Some(catalog)) => Some(CatalogAccess::own(&catalog.url, &own, &client)),
        (None, None) => None,
    };
    let access = Access {
        storage: issuer.storage_tokens(grid, &client)?,
        transfer: match &grid.transfer_service {
            Some(service) => TransferAccess::external(service, &own, &client)?,
            None => TransferAccess::own(&description.transfer.url, &own, &client),
        },
        catalog,
    };
    wait_for_doors(description, services.sites.as_deref()).await?;
    if let Some(sites) = &services.sites {
        description.processes = sites.describe();
    }
    if let Some(catalog) = &description.catalog {
        catalog::describe(grid, description, catalog, &client).await?;
    }
    if let Err(error) = doors::renew_token_file(description).await {
        // Another issuer may not give one token for everything; challenges ask for one at a time.
        if description.issuer.kind == KindDescription::Embedded {
            return Err(error);
        }
        let error = weir_auth::error_chain(&error);
        tracing::warn!(error, "the issuer gives no token for all doors: there is no token file");
    }
    description.write(&ground.dir)?;
    tracing::debug!(path = %ground.dir.join(FILE_NAME).display(), "described the grid");
    Ok((client, access))
}

async fn wait_for_doors(description: &GridDescription, sites: Option<&Processes>) -> Result<(), GridError> {
    let deadline = tokio::time::Instant::now() + READY_PATIENCE;
    loop {
        if let Some(error) = sites.and_then(Processes::ended) {
            return Err(error);
        }
        let doors = doors::knock(description).await?;
        let closed = doors.into_iter().find(|door| !door.up && door.is_embedded());
        match closed {
            None => return Ok(()),
            Some(door) if tokio::time::Instant::now() > deadline => {
                let why = door.error.unwrap_or_default();
                return Err(GridError::Start {
                    door: door.door,
                    source: why.into(),
                });
            }
            Some(_) => tokio::time::sleep(KNOCK_INTERVAL).await,
        }
    }
}

/// Renews the token file at each half of a token's life, so that tools which read it never find an old one.
async fn keep_token_file_fresh(description: GridDescription, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        if let Err(error) = doors::renew_token_file(&description).await {
            tracing::warn!(%error, "could not renew the token file");
        }
    }
}

fn describe_rse(
    ground: &Ground,
    rse: &Rse,
    listens: &BTreeMap<String, SocketAddr>,
) -> Result<RseDescription, GridError> {
    let (kind, url, area) = match &rse.kind {
        RseKind::External { url, .. } => (KindDescription::External, url.clone(), None),
        RseKind::Embedded { place, .. } => {
            let url = configure::door_url(place.as_ref(), listens[rse.name.as_str()]);
            (KindDescription::Embedded, url, Some(configure::area(ground, rse)?))
        }
    };
    Ok(RseDescription {
        name: rse.name.to_string(),
        site: rse.site.to_string(),
        audience: origin(&url).to_owned(),
        url,
        kind,
        area,
    })
}
