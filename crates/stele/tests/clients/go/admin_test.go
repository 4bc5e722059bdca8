package clients

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
)

func TestFamilies(t *testing.T) {
	lasting(t)
	const name = "families"
	if phase == "first" {
		create(t, &bigtable.TableConf{
			TableID:   name,
			SplitKeys: []string{"p", "g"},
			ColumnFamilies: map[string]bigtable.Family{
				"all":   {},
				"three": {GCPolicy: bigtable.MaxVersionsPolicy(3)},
				"hour":  {GCPolicy: bigtable.MaxAgePolicy(time.Hour)},
				"total": {ValueType: bigtable.AggregateType{
					Input: bigtable.Int64Type{}, Aggregator: bigtable.SumAggregator{}}},
			},
		})
		ok(t, admin.CreateColumnFamily(ctx, name, "late"))
		policy := bigtable.UnionPolicy(bigtable.MaxVersionsPolicy(2), bigtable.MaxAgePolicy(24*time.Hour))
		ok(t, admin.SetGCPolicy(ctx, name, "late", policy))
		ok(t, admin.DeleteColumnFamily(ctx, name, "hour"))
	}
	info, err := admin.TableInfo(ctx, name)
	ok(t, err)
	var got []string
	for _, family := range info.FamilyInfos {
		got = append(got, fmt.Sprintf("%s: %s", family.Name, family.GCPolicy))
	}
	slices.Sort(got)
	same(t, got, []string{
		"all: <never>", "late: (versions() > 2 || age() > 1d)", "three: versions() > 3", "total: <never>",
	})
	samples, err := client.Open(name).SampleRowKeys(ctx)
	ok(t, err)
	same(t, samples, []string{"g", "p"}) // the client leaves out the end of the table
	names, err := admin.Tables(ctx)
	ok(t, err)
	if !slices.Contains(names, name) {
		t.Errorf("%s is not in %v", name, names)
	}
}

func TestTablesComeAndGo(t *testing.T) {
	firstOnly(t)
	table, name := newTable(t, "f")
	refused(t, admin.CreateTable(ctx, name), codes.AlreadyExists, "tables/"+name)
	ok(t, table.Apply(ctx, "r", set("f", "q", 1000, "v")))
	ok(t, admin.WaitForReplication(ctx, name))
	ok(t, admin.DeleteTable(ctx, name))
	_, err := table.ReadRow(ctx, "r")
	refused(t, err, codes.NotFound, "tables/"+name)
	_, err = admin.TableInfo(ctx, name)
	refused(t, err, codes.NotFound, "tables/"+name)
	refused(t, admin.DeleteTable(ctx, name), codes.NotFound, "tables/"+name)
}

func TestInstancesAndProfiles(t *testing.T) {
	lasting(t)
	instances, err := bigtable.NewInstanceAdminClient(ctx, project, signIn()...)
	ok(t, err)
	defer instances.Close()
	const made = "go-made"
	if phase == "first" {
		ok(t, instances.CreateInstance(ctx, &bigtable.InstanceConf{
			InstanceId: made, DisplayName: "Made by Go", ClusterId: "go-one", Zone: "zone-a",
			NumNodes: 3, InstanceType: bigtable.PRODUCTION, Labels: map[string]string{"team": "go"},
		}))
		ok(t, instances.UpdateCluster(ctx, made, "go-one", 5))
		_, err := instances.CreateAppProfile(ctx, bigtable.ProfileConf{
			ProfileID: "reports", InstanceID: made, RoutingPolicy: bigtable.SingleClusterRouting,
			ClusterID: "go-one", AllowTransactionalWrites: false, Description: "nightly",
		})
		ok(t, err)
		refused(t, instances.DeleteCluster(ctx, made, "go-one"), codes.FailedPrecondition)
	}
	info, err := instances.InstanceInfo(ctx, made)
	ok(t, err)
	same(t, []string{info.DisplayName, info.Labels["team"]}, []string{"Made by Go", "go"})
	clusters, err := instances.Clusters(ctx, made)
	ok(t, err)
	if len(clusters) != 1 || clusters[0].Name != "go-one" || clusters[0].ServeNodes != 5 {
		t.Errorf("clusters: %+v", clusters)
	}
	profile, err := instances.GetAppProfile(ctx, made, "reports")
	ok(t, err)
	same(t, []string{profile.Description}, []string{"nightly"})
	var ids []string
	for profiles := instances.ListAppProfiles(ctx, made); ; {
		profile, err := profiles.Next()
		if err == iterator.Done {
			break
		}
		ok(t, err)
		ids = append(ids, profile.Name[strings.LastIndex(profile.Name, "/")+1:])
	}
	same(t, ids, []string{"default", "reports"})
}

func TestAuthorizedViews(t *testing.T) {
	lasting(t)
	const name, view = "viewed", "part"
	if phase == "first" {
		create(t, &bigtable.TableConf{TableID: name, Families: map[string]bigtable.GCPolicy{
			"f": bigtable.NoGcPolicy(), "g": bigtable.NoGcPolicy()}})
		table := client.Open(name)
		for _, key := range []string{"a", "b1", "b2"} {
			ok(t, table.Apply(ctx, key, set("f", "q", 1000, "v")))
			ok(t, table.Apply(ctx, key, set("g", "q", 1000, "v")))
		}
		part := bigtable.SubsetViewConf{}
		part.AddRowPrefix([]byte("b"))
		part.AddFamilySubsetQualifierPrefix("f", []byte(""))
		ok(t, admin.CreateAuthorizedView(ctx, &bigtable.AuthorizedViewConf{
			TableID: name, AuthorizedViewID: view, AuthorizedView: &part,
			DeletionProtection: bigtable.Protected,
		}))
	}
	part := client.OpenAuthorizedView(name, view)
	var got []string
	ok(t, part.ReadRows(ctx, bigtable.InfiniteRange(""), func(row bigtable.Row) bool {
		got = append(got, fmt.Sprintf("%s %d", row.Key(), len(row)))
		return true
	}))
	same(t, got, []string{"b1 1", "b2 1"})
	refused(t, part.Apply(ctx, "a", set("f", "q", 1000, "v")), codes.PermissionDenied, "row 'a'")
	refused(t, part.Apply(ctx, "b1", set("g", "q", 1000, "v")), codes.PermissionDenied, "column 'g:q'")
	ids, err := admin.AuthorizedViews(ctx, name)
	ok(t, err)
	same(t, ids, []string{view})
	refused(t, admin.DeleteTable(ctx, name), codes.FailedPrecondition, "protected")
}

func TestTransactionsOfAProfile(t *testing.T) {
	firstOnly(t)
	_, name := newTable(t, "f")
	instances, err := bigtable.NewInstanceAdminClient(ctx, project, signIn()...)
	ok(t, err)
	defer instances.Close()
	_, err = instances.CreateAppProfile(ctx, bigtable.ProfileConf{
		ProfileID: "no-transactions", InstanceID: instance, ClusterID: "stele",
		RoutingPolicy: bigtable.SingleClusterRouting, AllowTransactionalWrites: false,
	})
	ok(t, err)
	config := bigtable.ClientConfig{
		AppProfile: "no-transactions", MetricsProvider: bigtable.NoopMetricsProvider{},
	}
	client, err := bigtable.NewClientWithConfig(ctx, project, instance, config, signIn()...)
	ok(t, err)
	defer client.Close()
	table := client.Open(name)
	ok(t, table.Apply(ctx, "r", set("f", "q", 1000, "v")))
	add := bigtable.NewReadModifyWrite()
	add.Increment("f", "n", 1)
	_, err = table.ApplyReadModifyWrite(ctx, "r", add)
	refused(t, err, codes.FailedPrecondition, "Single-row transactions")
	ok(t, instances.DeleteAppProfile(ctx, instance, "no-transactions"))
}

func TestDropRowRange(t *testing.T) {
	firstOnly(t)
	table, name := newTable(t, "f")
	for _, key := range []string{"a1", "b1", "b2", "c1"} {
		ok(t, table.Apply(ctx, key, set("f", "q", 1000, "v")))
	}
	ok(t, admin.DropRowRange(ctx, name, "b"))
	same(t, keys(t, table, bigtable.InfiniteRange("")), []string{"a1", "c1"})
	ok(t, table.Apply(ctx, "b2", set("f", "q", 1000, "v")))
	same(t, keys(t, table, bigtable.InfiniteRange("")), []string{"a1", "b2", "c1"})
	ok(t, admin.DropAllRows(ctx, name))
	same(t, keys(t, table, bigtable.InfiniteRange("")), nil)
}

func TestBackups(t *testing.T) {
	lasting(t)
	const cluster, backup = "stele", "nightly"
	if phase == "first" {
		table, name := newTable(t, "f")
		ok(t, table.Apply(ctx, "r", set("f", "q", 1000, "backed up")))
		expires := time.Now().Add(24 * time.Hour)
		ok(t, admin.CreateBackup(ctx, name, cluster, backup, expires))
		refused(t, admin.CreateBackup(ctx, name, cluster, backup, expires), codes.AlreadyExists, backup)
		refused(t, admin.CreateBackup(ctx, name, cluster, "short", time.Now()), codes.InvalidArgument,
			"expire_time")
		ok(t, table.Apply(ctx, "r", set("f", "q", 2000, "later")))
		ok(t, admin.CopyBackup(ctx, cluster, backup, project, instance, cluster, "copy", expires))
		ok(t, admin.UpdateBackup(ctx, cluster, backup, time.Now().Add(48*time.Hour)))
		ok(t, admin.DeleteBackup(ctx, cluster, "copy"))
		ok(t, admin.DeleteTable(ctx, name))
		ok(t, admin.RestoreTable(ctx, "restored", cluster, backup))
		refused(t, admin.RestoreTable(ctx, "restored", cluster, backup), codes.AlreadyExists, "restored")
	}
	row, err := client.Open("restored").ReadRow(ctx, "r")
	ok(t, err)
	same(t, []string{string(row["f"][0].Value)}, []string{"backed up"})
	var names []string
	for backups := admin.Backups(ctx, cluster); ; {
		info, err := backups.Next()
		if err == iterator.Done {
			break
		}
		ok(t, err)
		names = append(names, info.Name)
	}
	same(t, names, []string{backup})
	info, err := admin.BackupInfo(ctx, cluster, backup)
	ok(t, err)
	if kept := info.ExpireTime.Sub(info.StartTime); kept < 47*time.Hour || info.SizeBytes == 0 {
		t.Errorf("the backup: %+v", info)
	}
	_, err = admin.BackupInfo(ctx, cluster, "copy")
	refused(t, err, codes.NotFound, "backups/copy")
}

func TestDeletionProtection(t *testing.T) {
	firstOnly(t)
	_, name := newTable(t, "f")
	ok(t, admin.UpdateTableWithDeletionProtection(ctx, name, bigtable.Protected))
	refused(t, admin.DeleteTable(ctx, name), codes.FailedPrecondition)
	info, err := admin.TableInfo(ctx, name)
	ok(t, err)
	if info.DeletionProtection != bigtable.Protected {
		t.Error("the table is not protected")
	}
	ok(t, admin.UpdateTableWithDeletionProtection(ctx, name, bigtable.Unprotected))
	ok(t, admin.DeleteTable(ctx, name))
}
