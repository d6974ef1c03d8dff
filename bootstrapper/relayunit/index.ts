/**
 * The relay on a worker: the way to the control planes of now for a node that was off while they were replaced.
 *
 * ```
 * node that comes back ── 9093 ─▶ cluster-relay.service ── 9091 ─▶ curator
 *                      ── 9094 ─▶   (this worker)       ── 9090 ─▶ join service, for who needs new certificates first
 * ```
 *
 * It passes TCP connections on and is trusted with nothing: TLS is between both ends, and whoever comes through a relay
 * believes only a certificate that says of its owner that it runs a control plane. A unit of its own, with no user, key or
 * file, beside the balancer of the API servers and not in it: what strangers do to it nothing of this node depends on.
 */
export { RELAY_PORTS, RELAY_UNIT, ensureRelay } from './relay-unit.ts';
