import { describeError } from '../../internal/errors/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { NodeHealth, NodeRole, NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import {
  ProbeResult_Outcome as Outcome,
  type ProbeReport,
  type ProbeResult,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator } from '../cluster/index.ts';
import { awaitChecks, type RemovalCheck } from './await-checks.ts';
import { SHARED_KEYS, type SharedKey } from './shared-keys.ts';

/** Longer than the two minutes for which a curator waits for a control plane. */
const PROBE_TIMEOUT_MS = 130_000;

/** Names of the places at which the probe tests credentials and keys. */
const ENDPOINT_NAMES: Readonly<Record<string, string>> = {
  'etcd-client': 'Kubernetes etcd client port',
  'etcd-peer': 'Kubernetes etcd peer port',
  'state-etcd-client': 'state etcd client port',
  'state-etcd-peer': 'state etcd peer port',
  'api-server': 'API server',
  kubelet: 'kubelet',
  curator: 'curator',
  'kubernetes-etcd-data': 'objects in the Kubernetes etcd',
};
const OUTCOME_NAMES: Readonly<Partial<Record<Outcome, string>>> = {
  [Outcome.REFUSED]: 'refused',
  [Outcome.ADMITTED]: 'accepted',
};

/** The shared keys that a removed node held. */
export interface HeldKeys {
  /** Generation of the keys; the keys created during init have generation 1. */
  readonly generation: number;
  /** Whether newer keys have replaced them: credentials made with them must then be refused. */
  readonly isReplaced: boolean;
}

/** Results of a removal probe. */
export interface ProbeResults {
  /**
   * The checks: every endpoint refuses the node's own credentials, and credentials made with keys that were
   * replaced.
   */
  readonly proofs: readonly RemovalCheck[];
  /** Results for the shared keys; empty for a node that had none. */
  readonly sharedKeys: readonly SharedKey[];
}

/** Repeats the removal probe until it has passed. @throws KeysError `keys-still-accepted` */
export async function awaitCredentialsRefused(
  context: CommandContext,
  { name, nodeId }: Pick<Node, 'nodeId' | 'name'>,
  held: HeldKeys,
): Promise<ProbeResults> {
  const step = { name: 'keys-proofs', title: 'Testing whether credentials of the old keys are refused' };
  return awaitChecks(context, { step, doing: `testing ${name} (${nodeId})` }, () =>
    runRemovalProbe(context, nodeId, held),
  );
}

/**
 * Runs a removal probe on the first healthy control plane that supports it. The probe tests credentials in
 * the name of the removed node at all endpoints of the cluster. Without a report, the only check fails.
 */
export async function runRemovalProbe(
  context: CommandContext,
  removedNodeId: string,
  held: HeldKeys | undefined,
): Promise<ProbeResults> {
  const { nodes } = await callCurator(context, ({ curator }) => curator.listNodes({}));
  const probe = {
    removedNodeId,
    heldKeys: held !== undefined,
    generation: BigInt(held?.generation ?? 0),
  };
  const failures: string[] = [];
  for (const { nodeId, name } of nodes.filter(isHealthyControlPlane)) {
    try {
      const { report } = await callCurator(context, ({ nodeStreams }) =>
        nodeStreams.probeRemoved({ node: nodeId, probe }, { timeoutMs: PROBE_TIMEOUT_MS }),
      );
      if (report !== undefined) return probeResultsFrom(report, held);
      failures.push(`${name}: no report`);
    } catch (error) {
      context.signal.throwIfAborted();
      failures.push(`${name}: ${describeError(error)}`);
    }
  }
  const actual = printable(`no result: ${failures.join('; ') || 'no control plane is healthy'}`);
  const { sharedKeys } = probeResultsFrom({ results: [], away: [] }, held);
  return { proofs: [{ what: 'credentials test', ok: false, actual }], sharedKeys };
}

function isHealthyControlPlane({ health, roles, state }: Node): boolean {
  return state === NodeState.UP && health === NodeHealth.HEALTHY && roles.includes(NodeRole.CONSENSUS_MEMBER);
}

/** Converts a report of the probe to checks, ordered by endpoint and node. Pure. */
export function probeResultsFrom(
  report: Pick<ProbeReport, 'results' | 'away'>,
  held: HeldKeys | undefined,
): ProbeResults {
  const results = report.results.toSorted(byEndpointAndNode);
  const own = Map.groupBy(
    results.filter((result) => !usesSharedKey(result)),
    ({ endpoint, node }) => `credentials test: ${nameOf(endpoint)} on ${printable(node)}`,
  );
  const shared = (held === undefined ? [] : SHARED_KEYS).map(({ credentials, ...key }) => {
    const tested = results.filter((each) => credentials.includes(each.credential) && usesSharedKey(each));
    return { key, credentials, tested };
  });
  // A key that was not replaced is checked too: endpoints must refuse credentials made with nothing but that key.
  const replaced =
    held?.isReplaced === true ? shared.filter(({ credentials }) => credentials.length > 0) : [];
  return {
    proofs: [
      ...[...own].map(([what, each]) => ({ what, ...refusalOf(each) })),
      // If no endpoint was tested, nothing shows that the credentials are refused, so the check fails.
      ...(own.size === 0 ? [{ what: 'credentials test', ok: false, actual: 'no endpoint found' }] : []),
      ...report.away.map((node) => ({
        what: `credentials test: ${printable(node)}`,
        ok: true,
        actual: 'not responding, not tested',
        isTested: false as const,
      })),
      ...replaced.map(({ key, tested }) => ({
        what: `credentials of the old ${key.key}`,
        ...(tested.length === 0 ? { ok: false, actual: 'not tested' } : refusalOf(tested)),
      })),
    ],
    sharedKeys: shared.map(({ key, tested }) =>
      tested.length === 0 ? key : { ...key, tried: summaryOf(tested) },
    ),
  };
}

const SHARED_CREDENTIALS = new Set(SHARED_KEYS.flatMap(({ credentials }) => credentials));

/**
 * Whether a result tells something about a shared key. A credential for one etcd port, tested at another port, tells
 * nothing: that port must refuse it in any case.
 */
function usesSharedKey({ credential, endpoint }: ProbeResult): boolean {
  const isForeign = credential.includes('etcd-') && endpoint !== credential;
  return SHARED_CREDENTIALS.has(credential) && !isForeign;
}

/** Passes if all endpoints refuse the credentials; otherwise lists the endpoints that do not. */
function refusalOf(results: readonly ProbeResult[]): Pick<RemovalCheck, 'ok' | 'actual'> {
  const open = results.filter(({ outcome }) => outcome !== Outcome.REFUSED);
  if (open.length === 0 && new Set(results.map(({ endpoint, node }) => `${endpoint} ${node}`)).size > 1)
    return { ok: true, actual: summaryOf(results) };
  const actual = (open.length === 0 ? results : open).map(
    ({ credential, outcome, detail }) =>
      `${credential} ${OUTCOME_NAMES[outcome] ?? 'inconclusive'} (${printable(detail)})`,
  );
  return { ok: open.length === 0, actual: actual.join(', ') };
}

/** E.g. "accepted at kubelet on n1, n2; no clear result from 1 of 3 tests". */
function summaryOf(results: readonly ProbeResult[]): string {
  const parts = [Outcome.ADMITTED, Outcome.REFUSED].flatMap((outcome) => {
    const same = results.filter((result) => result.outcome === outcome);
    const endpoints = [...Map.groupBy(same, ({ endpoint }) => nameOf(endpoint))].map(
      ([name, each]) => `${name} on ${[...new Set(each.map(({ node }) => printable(node)))].join(', ')}`,
    );
    return endpoints.length === 0 ? [] : [`${OUTCOME_NAMES[outcome]} at ${endpoints.join(', ')}`];
  });
  const open = results.filter(({ outcome }) => OUTCOME_NAMES[outcome] === undefined).length;
  return [...parts, ...(open > 0 ? [`no clear result from ${open} of ${results.length} tests`] : [])].join(
    '; ',
  );
}

/** Endpoints in the order of their table, unknown ones last; nodes by name. */
function byEndpointAndNode(one: ProbeResult, other: ProbeResult): number {
  const endpoints = Object.keys(ENDPOINT_NAMES).toReversed();
  const apart = endpoints.indexOf(other.endpoint) - endpoints.indexOf(one.endpoint);
  return apart === 0 ? one.node.localeCompare(other.node, 'en', { numeric: true }) : apart;
}

/** The agent's own name for an endpoint that this version does not know. */
function nameOf(endpoint: string): string {
  return ENDPOINT_NAMES[endpoint] ?? printable(endpoint);
}
