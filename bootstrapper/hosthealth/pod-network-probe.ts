import { isIPv6 } from 'node:net';
import { familyOf, ipv6FromHex, ipv6Hex } from '../../internal/endpoint/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { MINUTE_MS } from '../../internal/clock/index.ts';
import { FullPacketProbe, type FullPacketPorts, type FullPackets } from './full-packet-probe.ts';
import { RoundTrips, type RoundTrip } from './round-trips.ts';

/**
 * The interfaces of the network chart (flannel) with VXLAN, through which packets to pods of other nodes leave this one. A cluster with
 * both families has both; nodes probe each other by the family of its first network.
 */
export const POD_INTERFACES = { IPv4: 'flannel.1', IPv6: 'flannel-v6.1' } as const;
const ROUTES = { IPv4: '/proc/net/route', IPv6: '/proc/net/ipv6_route' } as const;
const MAX_ROUTES_BYTES = 1024 * 1024;
/** While every peer answers, one of them is probed in each interval. */
const WELL_MS = 10_000;
/** Peers come and go seldom. */
const ROUTES_MS = MINUTE_MS;
/** A peer that is switched off counts as silent before this time is over, so it is not taken for a broken network. */
const FAILING_MS = 20_000;
/** Each node probes this many peers, and is probed by as many: a cluster of 1,000 nodes costs no more than one of nine. */
const MAX_PEERS = 8;

/** What this node knows about the network of pods. */
export interface PodNetworkHealth {
  /** The address of this node in the network of pods. */
  readonly address: string;
  /** The addresses of other nodes there that do not answer. */
  readonly unreachable: readonly string[];
  readonly fullPackets: FullPackets;
  /** Of the nodes that answer, and were measured often enough. */
  readonly roundTrips: readonly RoundTrip[];
}

/** Ports (injected dependencies) of `PodNetworkProbe`. */
export interface PodNetworkPorts extends FullPacketPorts {
  readonly files: FilePort;
  /** The address of this node on its interface of `POD_INTERFACES`; undefined without that interface. */
  readonly ownAddress: () => string | undefined;
  /** How long a host takes to answer in any way, in ms; undefined if it does not. */
  readonly answerTimeMs: (host: string, signal: AbortSignal) => Promise<number | undefined>;
}

/**
 * Finds nodes that this node does not reach through the network of pods. The routes of flannel name the address that each
 * other node has there. Any answer proves the way, also a refused connection, and the time until it comes is a round trip.
 */
export class PodNetworkProbe {
  readonly #ports: PodNetworkPorts;
  /** Peers that did not answer the last time, and since when. */
  readonly #suspects = new Map<string, number>();
  #fullPackets: FullPacketProbe;
  #roundTrips = new RoundTrips();
  #found: PodNetworkHealth | undefined;
  #peers: { readonly atMs: number; readonly addresses: readonly string[] } | undefined;
  #probedMs = -Infinity;
  #last = '';

  constructor(ports: PodNetworkPorts) {
    this.#ports = ports;
    this.#fullPackets = new FullPacketProbe(ports);
  }

  /** The result of the last check. */
  get found(): PodNetworkHealth | undefined {
    return this.#found;
  }

  /** To be called with each heartbeat. Undefined on a node without the network chart. */
  async check(signal: AbortSignal): Promise<PodNetworkHealth | undefined> {
    this.#found = await this.#check(signal);
    return this.#found;
  }

  async #check(signal: AbortSignal): Promise<PodNetworkHealth | undefined> {
    const address = this.#ports.ownAddress();
    if (address === undefined) {
      this.#suspects.clear();
      this.#peers = undefined;
      this.#fullPackets = new FullPacketProbe(this.#ports);
      this.#roundTrips = new RoundTrips();
      return undefined;
    }
    const nowMs = this.#ports.clock.monotonicMs();
    if (this.#suspects.size > 0 || nowMs - this.#probedMs >= WELL_MS) {
      this.#probedMs = nowMs;
      await this.#probe(await this.#readPeers(address, nowMs), { nowMs, signal });
    }
    const answering = (this.#peers?.addresses ?? []).filter((peer) => !this.#suspects.has(peer));
    this.#fullPackets.probe(answering, signal);
    const unreachable = [...this.#suspects]
      .filter(([, sinceMs]) => nowMs - sinceMs >= FAILING_MS)
      .map(([peer]) => peer);
    // A peer that misses one probe keeps its figure, so that the status of this node does not change.
    const roundTrips = this.#roundTrips.reported.filter((peer) => !unreachable.includes(peer.address));
    return {
      ...{ address, unreachable: unreachable.toSorted(), fullPackets: this.#fullPackets.found },
      roundTrips: roundTrips.toSorted((a, b) => byNumber(a.address, b.address)),
    };
  }

  async #readPeers(address: string, nowMs: number): Promise<readonly string[]> {
    if (this.#peers === undefined || this.#suspects.size > 0 || nowMs - this.#peers.atMs >= ROUTES_MS) {
      const family = familyOf(address);
      const text = (await readText(this.#ports.files, ROUTES[family], MAX_ROUTES_BYTES)) ?? '';
      const gateways = family === 'IPv4' ? gatewaysFrom(text) : ipv6GatewaysFrom(text);
      this.#peers = { atMs: nowMs, addresses: neighboursOf(address, gateways) };
    }
    return this.#peers.addresses;
  }

  /** Probes every peer that did not answer the last time, and the next one of the others. */
  async #probe(
    peers: readonly string[],
    { nowMs, signal }: { readonly nowMs: number; readonly signal: AbortSignal },
  ): Promise<void> {
    for (const peer of this.#suspects.keys()) if (!peers.includes(peer)) this.#suspects.delete(peer);
    this.#roundTrips.keepOnly(peers);
    const others = peers.filter((peer) => !this.#suspects.has(peer));
    const next = others[(others.indexOf(this.#last) + 1) % others.length];
    if (next !== undefined) this.#last = next;
    const targets = [...this.#suspects.keys(), ...(next === undefined ? [] : [next])];
    await Promise.all(
      targets.map(async (peer) => {
        const ms = await this.#ports.answerTimeMs(peer, signal);
        if (ms !== undefined) {
          this.#suspects.delete(peer);
          this.#roundTrips.add(peer, ms);
        } else if (!this.#suspects.has(peer)) this.#suspects.set(peer, nowMs);
      }),
    );
  }
}

/**
 * Whether pods of this node have the network of the network chart, or will have it. With WireGuard no route names a peer, so none is probed,
 * and its interface is missing while flannel does not run.
 * @param probed the result of `PodNetworkProbe.check()`
 */
export function hasPodNetwork(
  probed: PodNetworkHealth | undefined,
  backend: 'wireguard' | undefined,
): boolean {
  return probed !== undefined || backend === 'wireguard';
}

/** The gateways of the IPv4 routes through the interface: one for each other node. */
function gatewaysFrom(routes: string): readonly string[] {
  const columns = routes.split('\n').map((line) => line.trim().split(/\s+/));
  const found = columns
    .filter(([name, , gateway = '']) => name === POD_INTERFACES.IPv4 && /^[\dA-F]{8}$/i.test(gateway))
    .map(([, , gateway = '']) => gateway);
  return found.filter((gateway) => gateway !== '00000000').map(addressFrom);
}

/** The columns are destination, prefix, source, prefix, gateway, metric, two counts, flags and interface. */
function ipv6GatewaysFrom(routes: string): readonly string[] {
  const columns = routes.split('\n').map((line) => line.trim().split(/\s+/));
  const found = columns
    .filter(
      ([, , , , gateway = '', , , , , name]) => name === POD_INTERFACES.IPv6 && /^[\da-f]{32}$/.test(gateway),
    )
    .map(([, , , , gateway = '']) => gateway);
  return found.filter((gateway) => /[^0]/.test(gateway)).map(ipv6FromHex);
}

/** The kernel prints the bytes of an address in the order of the processor: little-endian on amd64 and arm64. */
function addressFrom(hex: string): string {
  return Buffer.from(hex, 'hex').reverse().join('.');
}

/** The addresses that follow this node's own one, as in a ring: then every node is probed by as many others. */
function neighboursOf(own: string, addresses: readonly string[]): readonly string[] {
  const others = [...new Set(addresses)].filter((each) => each !== own).toSorted(byNumber);
  const after = others.filter((each) => byNumber(each, own) > 0);
  const before = others.filter((each) => byNumber(each, own) < 0);
  return [...after, ...before].slice(0, MAX_PEERS);
}

function byNumber(a: string, b: string): number {
  const [left, right] = [sortKey(a), sortKey(b)];
  return left < right ? -1 : Number(left > right);
}

/** Texts of equal length, which sort like the numbers of their addresses. */
function sortKey(address: string): string {
  return isIPv6(address)
    ? ipv6Hex(address)
    : address
        .split('.')
        .map((byte) => byte.padStart(3, '0'))
        .join('.');
}
