//! Roles and privileges.

use crate::door::Secret;
use crate::expression::Acting;
use crate::statement::privilege::{role_name, role_oid};
use crate::statement::{Run, name_of};
use datafusion::sql::sqlparser::ast::{
    Action, AlterRoleOperation, CreateRole, Expr, Grant, GrantObjects, Grantee, GranteeName,
    GranteesType, Ident, ObjectName, Password, Privileges as Written, Revoke, RoleOption,
    Value as Literal, ValueWithSpan,
};
use relational::catalog::{PUBLIC_ROLE, Privileges, Relation};
use relational::{Error, GrantChange, GrantOn, NewRole, Oid, Result, RoleChange, SqlState};

/// Carries out a CREATE ROLE.
pub(super) async fn create(create: &CreateRole, run: &mut Run<'_>) -> Result<&'static str> {
    let catalog = run.transaction.catalog();
    run.environment(&catalog).check_superuser("create role")?;
    refuse(create)?;
    let groups = create.in_role.iter().chain(&create.in_group);
    let join = groups.map(|group| role_oid(&catalog, &name_of(group)));
    let attributes = RoleChange {
        superuser: create.superuser,
        login: create.login,
        create_role: create.create_role,
        inherit: create.inherit,
        password: create.password.as_ref().map(secret).transpose()?,
        join: join.collect::<Result<_>>()?,
        ..RoleChange::default()
    };
    for name in &create.names {
        let name = role_name(name)?;
        if create.if_not_exists && catalog.role_named(&name).is_some() {
            continue;
        }
        if name.starts_with("pg_") || matches!(name.as_str(), "public" | "none") {
            let message = format!("role name \"{name}\" is reserved");
            return Err(Error::new(SqlState::RESERVED_NAME, message));
        }
        let attributes = attributes.clone();
        run.transaction.create_role(NewRole { name, attributes }).await?;
    }
    Ok("CREATE ROLE")
}

/// Refuses options that are not kept (0A000). A role that is valid for ever is as any other.
fn refuse(create: &CreateRole) -> Result<()> {
    let is_forever = |until: &Expr| until.to_string() == "'infinity'";
    let what = if !create.valid_until.as_ref().is_none_or(is_forever) {
        "VALID UNTIL is"
    } else if create.connection_limit.is_some() {
        "CONNECTION LIMIT is"
    } else if !create.role.is_empty() || !create.user.is_empty() || !create.admin.is_empty() {
        "members by ROLE, USER and ADMIN are"
    } else {
        return Ok(());
    };
    Err(Error::unsupported(format!("{what} not supported in CREATE ROLE")))
}

/// Carries out an ALTER ROLE.
pub(super) async fn alter(
    name: &Ident,
    operation: &AlterRoleOperation,
    run: &mut Run<'_>,
) -> Result<&'static str> {
    let catalog = run.transaction.catalog();
    let name = name_of(name);
    let role = role_oid(&catalog, &name)?;
    let is_own_password = run.identity.acting == Acting::Role(role)
        && matches!(operation, AlterRoleOperation::WithOptions { options }
            if options.iter().all(|option| matches!(option, RoleOption::Password(_))));
    if !is_own_password {
        run.environment(&catalog).check_superuser("alter role")?;
    }
    let mut change = RoleChange::default();
    match operation {
        AlterRoleOperation::RenameRole { role_name } => change.name = Some(name_of(role_name)),
        AlterRoleOperation::WithOptions { options } => {
            for option in options {
                match option {
                    RoleOption::SuperUser(is_on) => change.superuser = Some(*is_on),
                    RoleOption::Login(is_on) => change.login = Some(*is_on),
                    RoleOption::CreateRole(is_on) => change.create_role = Some(*is_on),
                    RoleOption::Inherit(is_on) => change.inherit = Some(*is_on),
                    RoleOption::Password(password) => change.password = Some(secret(password)?),
                    RoleOption::CreateDB(_)
                    | RoleOption::BypassRLS(_)
                    | RoleOption::Replication(_) => {}
                    other => {
                        return Err(Error::unsupported(format!("role option {other:?}")));
                    }
                }
            }
        }
        other => return Err(Error::unsupported(format!("ALTER ROLE {other}"))),
    }
    run.transaction.alter_role(role, change).await?;
    Ok("ALTER ROLE")
}

/// Drops a role that owns nothing.
pub(super) async fn drop(name: &ObjectName, run: &mut Run<'_>) -> Result<()> {
    let catalog = run.transaction.catalog();
    run.environment(&catalog).check_superuser("drop role")?;
    let role = role_oid(&catalog, &role_name(name)?)?;
    if run.identity.acting == Acting::Role(role) {
        let message = "current user cannot be dropped";
        return Err(Error::new(SqlState::OBJECT_IN_USE, message));
    }
    run.transaction.drop_role(role).await
}

/// Returns the text of what verifies a password.
fn secret(password: &Password) -> Result<Option<String>> {
    let text = match password {
        Password::NullPassword => return Ok(None),
        Password::Password(Expr::Value(ValueWithSpan {
            value: Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text),
            ..
        })) => text,
        Password::Password(_) => {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "a password is a text"));
        }
    };
    if let Some(secret) = Secret::parse(text) {
        return Ok(Some(secret.to_text()));
    }
    if text.starts_with("md5") && text.len() == 35 {
        return Err(Error::unsupported("passwords in the md5 form are not supported"));
    }
    let secret = Secret::of_password(text);
    let secret = secret.ok_or_else(|| Error::internal("the system gives no random numbers"))?;
    Ok(Some(secret.to_text()))
}

/// Carries out a GRANT on objects or of roles.
pub(super) async fn grant(grant: &Grant, text: &str, run: &mut Run<'_>) -> Result<&'static str> {
    if let (None, Written::Actions(actions)) = (&grant.objects, &grant.privileges) {
        change_members(actions, &grant.grantees, true, run).await?;
        return Ok("GRANT ROLE");
    }
    let wanted = (&grant.privileges, &grant.objects, grant.grantees.as_slice());
    for change in changes(wanted, grant.with_grant_option, text, run)? {
        run.transaction.grant(change).await?;
    }
    Ok("GRANT")
}

/// Carries out a REVOKE on objects or of roles.
pub(super) async fn revoke(revoke: &Revoke, text: &str, run: &mut Run<'_>) -> Result<&'static str> {
    if let (None, Written::Actions(actions)) = (&revoke.objects, &revoke.privileges) {
        change_members(actions, &revoke.grantees, false, run).await?;
        return Ok("REVOKE ROLE");
    }
    let wanted = (&revoke.privileges, &revoke.objects, revoke.grantees.as_slice());
    for change in changes(wanted, false, text, run)? {
        run.transaction.revoke(change).await?;
    }
    Ok("REVOKE")
}

async fn change_members(
    groups: &[Action],
    members: &[Grantee],
    is_joining: bool,
    run: &mut Run<'_>,
) -> Result<()> {
    let catalog = run.transaction.catalog();
    run.environment(&catalog).check_superuser("grant role")?;
    let mut oids = Vec::new();
    for group in groups {
        let Action::Role { role } = group else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "GRANT needs ON and an object"));
        };
        oids.push(role_oid(&catalog, &role_name(role)?)?);
    }
    for member in members {
        let role = grantee(member, run)?;
        let mut change = RoleChange::default();
        if is_joining {
            change.join.clone_from(&oids);
        } else {
            change.leave.clone_from(&oids);
        }
        run.transaction.alter_role(role, change).await?;
    }
    Ok(())
}

fn grantee(grantee: &Grantee, run: &Run<'_>) -> Result<Oid> {
    let catalog = run.transaction.catalog();
    match (&grantee.grantee_type, &grantee.name) {
        (GranteesType::Public, _) => Ok(PUBLIC_ROLE),
        (_, Some(GranteeName::ObjectName(name))) => match role_name(name)?.as_str() {
            "public" => Ok(PUBLIC_ROLE),
            "current_user" | "session_user" | "current_role" => run.role(),
            name => role_oid(&catalog, name),
        },
        _ => Err(Error::unsupported(format!("GRANT to {grantee}"))),
    }
}

/// Returns the changes that a statement makes: one for each object and role.
fn changes(
    (privileges, objects, grantees): (&Written, &Option<GrantObjects>, &[Grantee]),
    grant_option: bool,
    text: &str,
    run: &Run<'_>,
) -> Result<Vec<GrantChange>> {
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let mut things: Vec<(GrantOn, Privileges)> = Vec::new();
    let mut relation = |relation: Relation| -> Result<()> {
        environment.check_owner(&relation)?;
        let all = match relation {
            Relation::Sequence(_) => Privileges::ALL_OF_SEQUENCE,
            _ => Privileges::ALL_OF_TABLE,
        };
        things.push((GrantOn::Relation(relation.oid()), all));
        Ok(())
    };
    let schema_of = |name: &ObjectName| environment.schema(&role_name(name)?);
    match objects {
        Some(
            GrantObjects::Tables(names)
            | GrantObjects::Views(names)
            | GrantObjects::Sequences(names),
        ) => {
            for name in names {
                relation(environment.relation(name, text)?)?;
            }
        }
        Some(GrantObjects::AllTablesInSchema { schemas }) => {
            for name in schemas {
                let schema = schema_of(name)?;
                for table in catalog.tables().filter(|table| table.schema == schema) {
                    relation(Relation::Table(table.clone()))?;
                }
                for wide in catalog.wides().filter(|wide| wide.schema == schema) {
                    relation(Relation::Wide(wide.clone()))?;
                }
                for view in catalog.views().filter(|view| view.schema == schema) {
                    relation(Relation::View(view.clone()))?;
                }
            }
        }
        Some(GrantObjects::AllSequencesInSchema { schemas }) => {
            for name in schemas {
                let schema = schema_of(name)?;
                for sequence in catalog.sequences().filter(|s| s.schema == schema) {
                    relation(Relation::Sequence(sequence.clone()))?;
                }
            }
        }
        Some(GrantObjects::Schemas(names)) => {
            environment.check_superuser("grant privileges on a schema")?;
            for name in names {
                things.push((GrantOn::Schema(schema_of(name)?), Privileges::ALL_OF_SCHEMA));
            }
        }
        // Every role may connect to the only database.
        Some(GrantObjects::Databases(_)) => {}
        _ => return Err(Error::unsupported("GRANT on this kind of object")),
    }
    let grantor = run.role()?;
    let mut changes = Vec::new();
    for (on, all) in things {
        let privileges = match privileges {
            Written::All { .. } => all,
            Written::Actions(actions) => {
                actions.iter().try_fold(Privileges::default(), |sum, action| {
                    privilege(action).map(|one| Privileges(sum.0 | one.0))
                })?
            }
        };
        for role in grantees {
            let role = grantee(role, run)?;
            changes.push(GrantChange { on, role, grantor, privileges, grant_option });
        }
    }
    Ok(changes)
}

fn privilege(action: &Action) -> Result<Privileges> {
    Ok(match action {
        Action::Select { columns: None } => Privileges::SELECT,
        Action::Insert { columns: None } => Privileges::INSERT,
        Action::Update { columns: None } => Privileges::UPDATE,
        Action::References { columns: None } => Privileges::REFERENCES,
        Action::Delete => Privileges::DELETE,
        Action::Truncate => Privileges::TRUNCATE,
        Action::Trigger => Privileges::TRIGGER,
        Action::Usage => Privileges::USAGE,
        Action::Create { .. } => Privileges::CREATE,
        other => return Err(Error::unsupported(format!("the privilege {other}"))),
    })
}
