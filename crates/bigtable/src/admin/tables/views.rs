//! Authorized views: parts of a table under names of their own. They are deleted with their table.
//!
//! Deletions of tables and changes of views hold each other off ([`Directory::changing`]), so that a
//! protected view keeps its table.

use super::TableAdminService;
use crate::admin::directory::{Directory, put};
use crate::admin::message::{admin_any, check_etag, decoded, next_etag, page, wrong_path};
use crate::api::admin::authorized_view::{AuthorizedView as Kind, ResponseView, SubsetView};
use crate::api::admin::{
    AuthorizedView, CreateAuthorizedViewMetadata, CreateAuthorizedViewRequest,
    DeleteAuthorizedViewRequest, GetAuthorizedViewRequest, ListAuthorizedViewsRequest,
    ListAuthorizedViewsResponse, UpdateAuthorizedViewMetadata, UpdateAuthorizedViewRequest,
};
use crate::api::longrunning::Operation;
use crate::api::timestamp;
use crate::names;
use std::collections::BTreeMap;
use std::sync::Arc;
use table::{Error, Qualifiers, RecordChange, Result, Subset, TableName, TableSchema};

/// Most views of one instance.
const VIEWS_MAX: usize = 1_000;
/// Most prefixes and qualifiers of one view.
const PARAMETERS_MAX: usize = 100;
/// Most views of one page.
const PAGE_MAX: usize = 1_000;

impl Directory {
    /// Returns the part of its table that a view shows; `NotFound` if there is no such view.
    pub(crate) fn part(&self, view: &str) -> Result<Arc<Subset>> {
        let view: AuthorizedView = self.view(view)?;
        Ok(Arc::new(subset(&view)))
    }

    fn view(&self, name: &str) -> Result<AuthorizedView> {
        let not_found = || Error::NotFound { what: "authorized view", name: name.to_owned() };
        self.get(name)?.ok_or_else(not_found)
    }

    /// Refuses the deletion of what is below `prefix` while a view there is protected.
    pub(crate) fn check_views_go(&self, prefix: &str) -> Result<()> {
        let records = self.store().records(prefix).into_iter();
        for (name, record) in records.filter(|(name, _)| name.contains("/authorizedViews/")) {
            if decoded::<AuthorizedView>(&name, &record)?.deletion_protection {
                return Err(protected(&name));
            }
        }
        Ok(())
    }
}

impl TableAdminService {
    pub(super) async fn create_view(
        &self,
        request: CreateAuthorizedViewRequest,
    ) -> Result<Operation> {
        let table = names::table("parent", &request.parent)?;
        let id = &request.authorized_view_id;
        names::check_resource_id("authorized_view_id", id)?;
        let wanted = request.authorized_view.clone();
        let wanted = wanted.ok_or_else(|| Error::invalid("authorized_view", "is not set"))?;
        let name = format!("{table}/authorizedViews/{id}");
        let mut view = AuthorizedView { name, etag: String::new(), ..wanted };
        let _changing = self.directory.changing().await;
        self.directory.check_table(&table)?;
        check_view(&view, &*self.store().get_table(&table).await?)?;
        self.check_count(&table)?;
        if self.store().record(&view.name).is_some() {
            return Err(Error::AlreadyExists { what: "authorized view", name: view.name });
        }
        view.etag = next_etag(&view);
        let now = Some(timestamp(self.store().now_micros()));
        let metadata = CreateAuthorizedViewMetadata {
            original_request: Some(request),
            request_time: now,
            finish_time: now,
        };
        let metadata = admin_any("CreateAuthorizedViewMetadata", &metadata);
        self.finish_view(view, metadata).await
    }

    async fn finish_view(
        &self,
        view: AuthorizedView,
        metadata: prost_types::Any,
    ) -> Result<Operation> {
        let response = admin_any("AuthorizedView", &view);
        let changes = vec![put(&view.name, &view)];
        self.operations.finish(&view.name, metadata, response, changes).await
    }

    fn check_count(&self, table: &TableName) -> Result<()> {
        let Some(instance) = names::instance_of(table) else { return Ok(()) };
        let records = self.store().records(&format!("{instance}/tables/"));
        let views = records.iter().filter(|(name, _)| name.contains("/authorizedViews/"));
        if views.count() < VIEWS_MAX {
            return Ok(());
        }
        let text = format!("{instance} has {VIEWS_MAX} authorized views, which is the limit");
        Err(Error::ResourceExhausted(text))
    }

    pub(super) fn get_view(&self, request: &GetAuthorizedViewRequest) -> Result<AuthorizedView> {
        let shown = response_view(request.view, ResponseView::Basic)?;
        let (table, _) = names::authorized_view("name", &request.name)?;
        self.directory.check_table(&table)?;
        Ok(projected(self.directory.view(&request.name)?, shown))
    }

    pub(super) async fn list_views(
        &self,
        request: &ListAuthorizedViewsRequest,
    ) -> Result<ListAuthorizedViewsResponse> {
        let shown = response_view(request.view, ResponseView::NameOnly)?;
        let table = names::table("parent", &request.parent)?;
        self.directory.check_table(&table)?;
        self.store().get_table(&table).await?;
        let views: Vec<AuthorizedView> =
            self.directory.list(&format!("{table}/authorizedViews"))?;
        let wanted = (request.page_size, request.page_token.as_str());
        let (views, next_page_token) = page(views, |view| view.name.as_str(), wanted, PAGE_MAX)?;
        let authorized_views = views.into_iter().map(|view| projected(view, shown)).collect();
        Ok(ListAuthorizedViewsResponse { authorized_views, next_page_token })
    }

    pub(super) async fn update_view(
        &self,
        request: UpdateAuthorizedViewRequest,
    ) -> Result<Operation> {
        let original_request = Some(request.clone());
        let wanted = request.authorized_view;
        let wanted = wanted.ok_or_else(|| Error::invalid("authorized_view", "is not set"))?;
        let (table, _) = names::authorized_view("authorized_view.name", &wanted.name)?;
        let paths = request.update_mask.map_or_else(Vec::new, |mask| mask.paths);
        let _changing = self.directory.changing().await;
        self.directory.check_table(&table)?;
        let old = self.directory.view(&wanted.name)?;
        check_etag(&wanted.etag, &old.etag, &old.name)?;
        let mut view = updated(old, wanted, &paths)?;
        check_view(&view, &*self.store().get_table(&table).await?)?;
        view.etag = next_etag(&view);
        let now = Some(timestamp(self.store().now_micros()));
        let metadata =
            UpdateAuthorizedViewMetadata { original_request, request_time: now, finish_time: now };
        let metadata = admin_any("UpdateAuthorizedViewMetadata", &metadata);
        self.finish_view(view, metadata).await
    }

    pub(super) async fn delete_view(&self, request: DeleteAuthorizedViewRequest) -> Result<()> {
        let (table, _) = names::authorized_view("name", &request.name)?;
        let _changing = self.directory.changing().await;
        self.directory.check_table(&table)?;
        let view = self.directory.view(&request.name)?;
        check_etag(&request.etag, &view.etag, &view.name)?;
        if view.deletion_protection {
            return Err(protected(&view.name));
        }
        self.directory.change(vec![RecordChange::remove(view.name)]).await
    }
}

fn protected(view: &str) -> Error {
    Error::FailedPrecondition(format!("authorized view {view} is protected from deletion"))
}

/// Returns the part of its table that a view shows.
fn subset(view: &AuthorizedView) -> Subset {
    let Some(Kind::SubsetView(part)) = &view.authorized_view else {
        return Subset::new(&[], BTreeMap::new());
    };
    let families = part.family_subsets.iter().map(|(name, columns)| {
        let (exact, prefixes) = (columns.qualifiers.clone(), columns.qualifier_prefixes.clone());
        (name.clone(), Qualifiers { exact, prefixes })
    });
    Subset::new(&part.row_prefixes, families.collect())
}

fn check_view(view: &AuthorizedView, schema: &TableSchema) -> Result<()> {
    let Some(Kind::SubsetView(part)) = &view.authorized_view else {
        return Err(Error::invalid("authorized_view.subset_view", "is not set"));
    };
    let columns = part.family_subsets.values();
    let columns = columns.map(|family| family.qualifiers.len() + family.qualifier_prefixes.len());
    let parameters = part.row_prefixes.len() + columns.sum::<usize>();
    if parameters > PARAMETERS_MAX {
        let rule = format!("has {parameters} prefixes and qualifiers; at most {PARAMETERS_MAX}");
        return Err(Error::invalid("authorized_view.subset_view", rule));
    }
    let (keys, qualifiers) = (table::limits::ROW_KEY_BYTES_MAX, table::limits::QUALIFIER_BYTES_MAX);
    let field = "authorized_view.subset_view.row_prefixes";
    let check = |field: &str, text: &[u8], max| table::limits::check_len(field, text.len(), max);
    part.row_prefixes.iter().try_for_each(|prefix| check(field, prefix, keys))?;
    for (name, family) in &part.family_subsets {
        schema.family(name)?;
        let field = "authorized_view.subset_view.family_subsets";
        let mut texts = family.qualifiers.iter().chain(&family.qualifier_prefixes);
        texts.try_for_each(|text| check(field, text, qualifiers))?;
    }
    Ok(())
}

/// Returns the view with the fields at `paths` as they are in `wanted`. Without paths, the fields that
/// are set count; `*` stands for all.
fn updated(
    mut view: AuthorizedView,
    wanted: AuthorizedView,
    paths: &[String],
) -> Result<AuthorizedView> {
    if paths.is_empty() {
        view.deletion_protection |= wanted.deletion_protection;
        view.authorized_view = wanted.authorized_view.or(view.authorized_view);
        return Ok(view);
    }
    for path in paths {
        match path.as_str() {
            "*" => {
                view.deletion_protection = wanted.deletion_protection;
                view.authorized_view.clone_from(&wanted.authorized_view);
            }
            "deletion_protection" => view.deletion_protection = wanted.deletion_protection,
            "subset_view" => view.authorized_view.clone_from(&wanted.authorized_view),
            "subset_view.row_prefixes" => {
                part_of(&mut view).row_prefixes = part_of(&mut wanted.clone()).row_prefixes.clone();
            }
            "subset_view.family_subsets" => {
                part_of(&mut view).family_subsets =
                    part_of(&mut wanted.clone()).family_subsets.clone();
            }
            "etag" => {}
            _ => return Err(wrong_path(path, "subset_view or deletion_protection")),
        }
    }
    Ok(view)
}

fn part_of(view: &mut AuthorizedView) -> &mut SubsetView {
    let Kind::SubsetView(part) =
        view.authorized_view.get_or_insert_with(|| Kind::SubsetView(SubsetView::default()));
    part
}

fn response_view(view: i32, unspecified: ResponseView) -> Result<ResponseView> {
    match ResponseView::try_from(view) {
        Ok(ResponseView::Unspecified) => Ok(unspecified),
        Ok(view) => Ok(view),
        Err(_) => Err(Error::invalid("view", format!("{view} is not a view"))),
    }
}

/// Returns the parts of a view that `shown` asks for.
fn projected(view: AuthorizedView, shown: ResponseView) -> AuthorizedView {
    match shown {
        ResponseView::Full => view,
        ResponseView::Basic => AuthorizedView { authorized_view: None, ..view },
        _ => AuthorizedView { name: view.name, ..Default::default() },
    }
}
