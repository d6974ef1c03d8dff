import { mapConcurrently } from '../../internal/cleanup/index.ts';
import type { ClusterFacts } from '../../internal/doctor/index.ts';
import { formatEndpoint, hostOf, PORTS } from '../../internal/endpoint/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { probeTcp } from '../../internal/rpc/index.ts';
import type {
  CheckHealthResponse,
  GetClusterInfoResponse,
} from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator, readPart } from '../cluster/index.ts';
import { plain } from './read-records.ts';

const JOIN_SERVICE_MS = 5_000;
/** The most clocks that the facts have of one curator. */
const MAX_CLOCKS = 10_000;
/** How many nodes are asked at the same time. */
export const AT_ONCE = 8;

/** A control plane: the name of its node, or its address while the name is not known. */
export interface ControlPlane {
  readonly node: string;
  /** "HOST:PORT" of its curator. */
  readonly endpoint: string;
}

/** The control planes that a curator lists. */
export function planesFrom({
  directory,
}: Pick<GetClusterInfoResponse, 'directory'>): readonly ControlPlane[] {
  return directory
    .filter(({ curatorEndpoint }) => curatorEndpoint !== '')
    .map(({ name, curatorEndpoint: endpoint }) => ({ node: printable(name) || endpoint, endpoint }))
    .toSorted((a, b) => a.node.localeCompare(b.node, 'en', { numeric: true }));
}

/** Asks each curator whether it serves, and for the clocks of the nodes whose heartbeats it receives. */
export function askCurators(
  context: CommandContext,
  controlPlanes: readonly ControlPlane[],
): Promise<ClusterFacts['curators']> {
  return mapConcurrently(controlPlanes, AT_ONCE, async ({ node, endpoint }) => ({
    node,
    answer: plain(
      await readPart(context, async () => {
        const request = { withClocks: true };
        const health = await callCurator(context, ({ curator }) => curator.checkHealth(request), {
          only: [endpoint],
        });
        return { clocks: clocksFrom(health) };
      }),
    ),
  }));
}

/**
 * Only whether the port is open: a request of an operator would be refused, and the curator is a part of the same program, so its answer
 * shows that the program works.
 */
export function askJoinServices(
  controlPlanes: readonly ControlPlane[],
): Promise<NonNullable<ClusterFacts['joinServices']>> {
  return mapConcurrently(controlPlanes, AT_ONCE, async ({ node, endpoint }) => {
    const host = hostOf(endpoint);
    const probe = await probeTcp(host, PORTS.join, JOIN_SERVICE_MS);
    const error = `connecting to ${formatEndpoint(host, PORTS.join)}: ${probe}`;
    const codes = ['rpc-unreachable'];
    return { node, answer: probe === 'open' ? { ok: true, value: {} } : { ok: false, error, codes } };
  });
}

function clocksFrom({ clocks }: CheckHealthResponse): { nodeId: string; ms: number }[] {
  return clocks
    .slice(0, MAX_CLOCKS)
    .map(({ nodeId, offsetMs }) => ({ nodeId: printable(nodeId), ms: Number(offsetMs) }))
    .filter(({ ms }) => Number.isSafeInteger(ms));
}
