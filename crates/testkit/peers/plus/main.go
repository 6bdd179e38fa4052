// The official client library of NGINX Plus' API, as a controller uses it.
//
//	plus URL CASE …
//
// plays each case against the API at URL and prints its name. What is not as it should be ends it with a line that says so.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/nginx/nginx-plus-go-client/v3/client"
)

var cases = map[string]func(context.Context, *client.NginxClient) error{
	"upstreams": upstreams,
	"streams":   streams,
	"keyvals":   keyvals,
	"stats":     stats,
	"versions":  versions,
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: plus URL CASE …")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	c, err := client.NewNginxClient(os.Args[1], client.WithCheckAPI(), client.WithMaxAPIVersion())
	if err != nil {
		fail("client", err)
	}
	for _, name := range os.Args[2:] {
		play, known := cases[name]
		if !known {
			fail(name, errors.New("no such case"))
		}
		if err := play(ctx, c); err != nil {
			fail(name, err)
		}
		fmt.Println(name)
	}
}

func fail(name string, err error) {
	fmt.Printf("%s: %v\n", name, err)
	os.Exit(1)
}

func point[T any](value T) *T { return &value }

func counts(what string, added, deleted, updated int, want [3]int) error {
	if got := [3]int{added, deleted, updated}; got != want {
		return fmt.Errorf("%s: added, deleted, updated %v, not %v", what, got, want)
	}
	return nil
}

// An upstream "u" of http with a zone and without servers.
func upstreams(ctx context.Context, c *client.NginxClient) error {
	if err := c.CheckIfUpstreamExists(ctx, "u"); err != nil {
		return err
	}
	err := c.CheckIfUpstreamExists(ctx, "none")
	var status client.StatusError
	if !errors.As(err, &status) || status.Code() != "UpstreamNotFound" || status.Status() != 404 {
		return fmt.Errorf("an upstream that is not there: %v", err)
	}
	full := client.UpstreamServer{
		Server: "127.0.0.1:2000", MaxConns: point(321), MaxFails: point(64), FailTimeout: "21s", SlowStart: "12s",
		Weight: point(10), Route: "test", Backup: point(true), Down: point(true),
	}
	if err := c.AddHTTPServer(ctx, "u", full); err != nil {
		return err
	}
	if err := c.AddHTTPServer(ctx, "u", full); !errors.Is(err, client.ErrServerExists) {
		return fmt.Errorf("a server twice: %v", err)
	}
	servers, err := c.GetHTTPServers(ctx, "u")
	if err != nil {
		return err
	}
	servers[0].ID = 0
	if len(servers) != 1 || !reflect.DeepEqual(servers[0], full) {
		return fmt.Errorf("%+v", servers)
	}
	some := []client.UpstreamServer{{Server: "127.0.0.1:8001"}, {Server: "127.0.0.2:8002"}, {Server: "127.0.0.3"}}
	added, deleted, updated, err := c.UpdateHTTPServers(ctx, "u", some)
	if err != nil {
		return err
	}
	if err := counts("some", len(added), len(deleted), len(updated), [3]int{3, 1, 0}); err != nil {
		return err
	}
	added, deleted, updated, err = c.UpdateHTTPServers(ctx, "u", some)
	if err != nil {
		return err
	}
	if err := counts("the same", len(added), len(deleted), len(updated), [3]int{0, 0, 0}); err != nil {
		return err
	}
	some[0].SlowStart, some[0].MaxConns = "30s", point(5)
	some[1].Weight = point(7)
	added, deleted, updated, err = c.UpdateHTTPServers(ctx, "u", some[:2])
	if err != nil {
		return err
	}
	if err := counts("changed", len(added), len(deleted), len(updated), [3]int{0, 1, 2}); err != nil {
		return err
	}
	servers, err = c.GetHTTPServers(ctx, "u")
	if err != nil {
		return err
	}
	if servers[0].SlowStart != "30s" || *servers[0].MaxConns != 5 || *servers[1].Weight != 7 {
		return fmt.Errorf("%+v", servers)
	}
	unknown := servers[0]
	unknown.ID = 9999
	if err := c.UpdateHTTPServer(ctx, "u", unknown); err == nil {
		return errors.New("a server that is not there was changed")
	}
	if err := c.DeleteHTTPServer(ctx, "u", "127.0.0.1:8001"); err != nil {
		return err
	}
	if err := c.DeleteHTTPServer(ctx, "u", "127.0.0.1:8001"); !errors.Is(err, client.ErrServerNotFound) {
		return fmt.Errorf("a server that is gone: %v", err)
	}
	_, _, _, err = c.UpdateHTTPServers(ctx, "u", nil)
	return err
}

// An upstream "s" of stream with a zone and without servers.
func streams(ctx context.Context, c *client.NginxClient) error {
	if err := c.CheckIfStreamUpstreamExists(ctx, "s"); err != nil {
		return err
	}
	if err := c.CheckIfStreamUpstreamExists(ctx, "none"); err == nil {
		return errors.New("an upstream that is not there exists")
	}
	full := client.StreamUpstreamServer{
		Server: "127.0.0.1:2000", MaxConns: point(321), MaxFails: point(64), FailTimeout: "21s", SlowStart: "12s",
		Weight: point(10), Backup: point(true), Down: point(true),
	}
	if err := c.AddStreamServer(ctx, "s", full); err != nil {
		return err
	}
	servers, err := c.GetStreamServers(ctx, "s")
	if err != nil {
		return err
	}
	servers[0].ID = 0
	if len(servers) != 1 || !reflect.DeepEqual(servers[0], full) {
		return fmt.Errorf("%+v", servers)
	}
	some := []client.StreamUpstreamServer{{Server: "127.0.0.1:8001"}, {Server: "127.0.0.2:8002"}}
	added, deleted, updated, err := c.UpdateStreamServers(ctx, "s", some)
	if err != nil {
		return err
	}
	if err := counts("some", len(added), len(deleted), len(updated), [3]int{2, 1, 0}); err != nil {
		return err
	}
	some[1].MaxFails = point(6)
	added, deleted, updated, err = c.UpdateStreamServers(ctx, "s", some[1:])
	if err != nil {
		return err
	}
	if err := counts("changed", len(added), len(deleted), len(updated), [3]int{0, 1, 1}); err != nil {
		return err
	}
	if err := c.DeleteStreamServer(ctx, "s", "127.0.0.2:8002"); err != nil {
		return err
	}
	servers, err = c.GetStreamServers(ctx, "s")
	if err == nil && len(servers) != 0 {
		return fmt.Errorf("%+v", servers)
	}
	return err
}

// Zones "k" of http and "ks" of stream.
func keyvals(ctx context.Context, c *client.NginxClient) error {
	type pairs = client.KeyValPairs
	for _, one := range []struct {
		zone   string
		add    func(context.Context, string, string, string) error
		modify func(context.Context, string, string, string) error
		remove func(context.Context, string, string) error
		clear  func(context.Context, string) error
		get    func(context.Context, string) (pairs, error)
	}{
		{"k", c.AddKeyValPair, c.ModifyKeyValPair, c.DeleteKeyValuePair, c.DeleteKeyValPairs, c.GetKeyValPairs},
		{"ks", c.AddStreamKeyValPair, c.ModifyStreamKeyValPair, c.DeleteStreamKeyValuePair, c.DeleteStreamKeyValPairs, c.GetStreamKeyValPairs},
	} {
		is := func(want pairs) error {
			got, err := one.get(ctx, one.zone)
			if err == nil && !reflect.DeepEqual(got, want) {
				err = fmt.Errorf("%s: %v, not %v", one.zone, got, want)
			}
			return err
		}
		if err := errors.Join(one.add(ctx, one.zone, "key1", "val1"), is(pairs{"key1": "val1"})); err != nil {
			return err
		}
		if err := one.add(ctx, one.zone, "key1", "again"); err == nil || !strings.Contains(err.Error(), "KeyvalKeyExists") {
			return fmt.Errorf("a key twice: %v", err)
		}
		if err := errors.Join(
			one.modify(ctx, one.zone, "key1", "other"), is(pairs{"key1": "other"}), one.add(ctx, one.zone, "key2", "val2"),
			one.remove(ctx, one.zone, "key1"), is(pairs{"key2": "val2"}), one.clear(ctx, one.zone), is(pairs{}),
		); err != nil {
			return err
		}
		if err := one.modify(ctx, one.zone, "key1", "x"); err == nil {
			return errors.New("a key that is not there was changed")
		}
	}
	all, err := c.GetAllKeyValPairs(ctx)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%v", all)
	}
	return err
}

// Zones "site" and "place" of http, "service" of stream, limits "rate", "at_once" and "sessions", a cache "kept".
func stats(ctx context.Context, c *client.NginxClient) error {
	stats, err := c.GetStats(ctx)
	if err != nil {
		return err
	}
	info := stats.NginxInfo
	if info.Version == "" || info.Build == "" || info.Address == "" || info.Generation < 1 || info.ProcessID < 1 || info.ParentProcessID < 1 {
		return fmt.Errorf("%+v", info)
	}
	if stats.Connections.Accepted < 1 || len(stats.Workers) < 1 || stats.HTTPRequests.Total < 1 {
		return fmt.Errorf("%+v", stats)
	}
	site, place := stats.ServerZones["site"], stats.LocationZones["place"]
	if site.Requests < 1 || site.Responses.Codes.HTTPOk < 1 || place.Requests < 1 {
		return fmt.Errorf("%+v %+v", site, place)
	}
	if service := stats.StreamServerZones["service"]; service.Connections < 1 || service.Sessions.Total < 1 || service.Sent < 1 {
		return fmt.Errorf("%+v", service)
	}
	if stats.HTTPLimitRequests["rate"].Passed < 1 || stats.HTTPLimitConnections["at_once"].Passed < 1 || stats.StreamLimitConnections["sessions"].Passed < 1 {
		return fmt.Errorf("%+v %+v %+v", stats.HTTPLimitRequests, stats.HTTPLimitConnections, stats.StreamLimitConnections)
	}
	if kept := stats.Caches["kept"]; kept.MaxSize != 10<<20 || kept.Hit.Responses < 1 || kept.Miss.Responses < 1 {
		return fmt.Errorf("%+v", kept)
	}
	peer := stats.Upstreams["origin"].Peers[0]
	if peer.State != "up" || peer.Requests < 1 || peer.Responses.Codes.HTTPOk < 1 || peer.Selected == "" {
		return fmt.Errorf("%+v", peer)
	}
	if peer := stats.StreamUpstreams["origin"].Peers[0]; peer.State != "up" || peer.Connections < 1 {
		return fmt.Errorf("%+v", peer)
	}
	if stats.StreamZoneSync != nil {
		return fmt.Errorf("%+v", stats.StreamZoneSync)
	}
	return nil
}

// Each version that the library knows reads all it asks for.
func versions(ctx context.Context, _ *client.NginxClient) error {
	for version := 4; version <= 9; version++ {
		c, err := client.NewNginxClient(os.Args[1], client.WithAPIVersion(version), client.WithCheckAPI())
		if err != nil {
			return err
		}
		if _, err := c.GetUpstreams(ctx); err != nil {
			return fmt.Errorf("version %d: %w", version, err)
		}
		if _, err := c.GetServerZones(ctx); err != nil {
			return fmt.Errorf("version %d: %w", version, err)
		}
	}
	return nil
}
