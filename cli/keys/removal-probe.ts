import { NodeHealth, NodeRole, NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import {
  NodeStreams,
  ProbeResult_Outcome as Outcome,
  type ProbeReport,
  type ProbeResult,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { describeError } from '../../internal/errors/index.ts';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { SHARED_KEYS, type SharedKey } from './shared-keys.ts';
import { callCurator } from '../cluster/index.ts';
import { KeysError } from './errors.ts';

const POLL_MS = 1_000;
/** Control planes that take new keys start anew one after the other, and nobody is let in or refused meanwhile. */
export const REFUSAL_TIMEOUT_MS = 3 * 60_000;
/** A curator gives a control plane two minutes. */
const TRIAL_MS = 130_000;

const DOORS: Readonly<Record<string, string>> = {
  'etcd-client': 'the client port of the Kubernetes etcd',
  'etcd-peer': 'the peer port of the Kubernetes etcd',
  'state-etcd-client': 'the client port of the state etcd',
  'state-etcd-peer': 'the peer port of the state etcd',
  'api-server': 'the API server',
  kubelet: 'the kubelet',
  curator: 'the curator',
};

/** One thing that must be so when a node has been removed. */
export interface RemovalCheck {
  readonly what: string;
  readonly ok: boolean;
  readonly actual: string;
}

/** Of the keys that control planes share, those that a removed node had. */
export interface HeldKeys {
  /** 1 as they were made with the cluster. */
  readonly generation: number;
  /** Others took their place: what they make must be refused. */
  readonly isReplaced: boolean;
}

/** What came of showing papers in the name of a removed node. */
export interface ProbeResults {
  /** What must be refused at every door: its own papers, and what keys make that were replaced. */
  readonly proofs: readonly RemovalCheck[];
  /** Empty for a node that held none of them. */
  readonly sharedKeys: readonly SharedKey[];
}

/** Until all that must be refused is. */
export async function awaitCredentialsRefused(
  context: CommandContext,
  removed: Pick<Node, 'nodeId' | 'name'>,
  held: HeldKeys,
): Promise<ProbeResults> {
  const { clock } = context.ports;
  return context.host.step('keys-proofs', 'Trying what the old keys make', async (progress) => {
    const deadlineMs = clock.monotonicMs() + REFUSAL_TIMEOUT_MS;
    for (;;) {
      const tried = await probeCredentials(context, removed.nodeId, held);
      const open = tried.proofs.filter(({ ok }) => !ok);
      if (open.length === 0) return tried;
      const text = open.map(({ what, actual }) => `${what}: ${actual}`).join('; ');
      progress.update(text);
      if (clock.monotonicMs() > deadlineMs)
        throw new KeysError('keys-still-accepted', `trying ${removed.name} (${removed.nodeId}): ${text}`, {
          details: { ...tried },
        });
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

/** Has a control plane that is there try them; who cannot is asked no more, and none of them is a proof that is missing. */
export async function probeCredentials(
  context: CommandContext,
  removedNodeId: string,
  held: HeldKeys | undefined,
): Promise<ProbeResults> {
  const { nodes } = await callCurator(context, (curator, call) => curator.listNodes({}, call));
  const failures: string[] = [];
  const generation = BigInt(held?.generation ?? 0);
  for (const { nodeId, name } of nodes.filter(isControlPlane)) {
    try {
      const probe = { removedNodeId, heldKeys: held !== undefined, generation };
      const call = { signal: context.signal, timeoutMs: TRIAL_MS };
      const { report } = await callCurator(context, (_, _call, of) =>
        of(NodeStreams).probeRemoved({ node: nodeId, probe }, call),
      );
      if (report !== undefined) return triedFrom(report, held);
      failures.push(`${name}: an answer without a report`);
    } catch (error) {
      context.signal.throwIfAborted();
      failures.push(`${name}: ${describeError(error)}`);
    }
  }
  const actual = `not answered: ${failures.join('; ') || 'no control plane is healthy'}`;
  const proofs = [{ what: 'its papers at every door', ok: false, actual: printable(actual) }];
  return { proofs, sharedKeys: held === undefined ? [] : SHARED_KEYS.map(({ papers: _, ...key }) => key) };
}

function isControlPlane({ health, roles, state }: Node): boolean {
  return state === NodeState.UP && health === NodeHealth.HEALTHY && roles.includes(NodeRole.CONSENSUS_MEMBER);
}

/** A report as rows for people. Pure. */
export function triedFrom(report: ProbeReport, held: HeldKeys | undefined): ProbeResults {
  const { away } = report;
  const trials = report.results.toSorted(byDoorAndNode);
  const own = trials.filter((trial) => !isOfSharedKey(trial));
  const doors = Map.groupBy(
    own,
    ({ endpoint: door, node }) => `its papers at ${nameOf(door)} of ${printable(node)}`,
  );
  const proofs = [...doors].map(([what, each]) => ({ what, ...refusals(each) }));
  const unasked = away.map((node) => ({
    what: `its papers at ${printable(node)}`,
    ok: true,
    actual: 'is silent and was not asked',
  }));
  // Nobody would have refused: nothing is proved by asking nobody.
  const none = { what: 'its papers at every door', ok: false, actual: 'no door was found' };
  return {
    proofs: [
      ...(proofs.length === 0 ? [none] : proofs),
      ...unasked,
      ...(held?.isReplaced === true ? proofsOfReplaced(trials) : []),
    ],
    sharedKeys: held === undefined ? [] : SHARED_KEYS.map((key) => sharedKeyFrom(key, trials)),
  };
}

type KnownKey = (typeof SHARED_KEYS)[number];

function sharedKeyFrom({ papers, ...key }: KnownKey, trials: readonly ProbeResult[]): SharedKey {
  const tried = placesOf(trialsOf(papers, trials));
  return tried === undefined ? key : { ...key, tried };
}

/** Keys that last make papers of their own that open nothing: the proof is the same. */
function proofsOfReplaced(trials: readonly ProbeResult[]): readonly RemovalCheck[] {
  return SHARED_KEYS.filter(({ papers }) => papers.length > 0).map(({ key, papers }) => {
    const tried = trialsOf(papers, trials);
    const what = `what the old ${key} makes`;
    return tried.length === 0 ? { what, ok: false, actual: 'was not tried' } : { what, ...refusals(tried) };
  });
}

const SHARED_PAPERS = new Set(SHARED_KEYS.flatMap(({ papers }) => papers));

function trialsOf(papers: readonly string[], trials: readonly ProbeResult[]): readonly ProbeResult[] {
  return trials.filter((trial) => papers.includes(trial.credential) && isOfSharedKey(trial));
}

/** What a shared key makes, at the doors that go by it. A client at a peer's door is a stranger like any other. */
function isOfSharedKey({ credential: paper, endpoint: door }: ProbeResult): boolean {
  return SHARED_PAPERS.has(paper) && !(paper === 'etcd-client' && door !== paper);
}

function refusals(trials: readonly ProbeResult[]): Pick<RemovalCheck, 'ok' | 'actual'> {
  const open = trials.filter(({ outcome }) => outcome !== Outcome.REFUSED);
  if (open.length === 0 && new Set(trials.map(({ endpoint: door, node }) => `${door} ${node}`)).size > 1)
    return { ok: true, actual: placesOf(trials) ?? '' };
  const shown = open.length === 0 ? trials : open;
  const said = shown.map((trial) => `${trial.credential} ${wordOf(trial)} (${printable(trial.detail)})`);
  return { ok: open.length === 0, actual: said.join(', ') };
}

function placesOf(tried: readonly ProbeResult[]): string | undefined {
  if (tried.length === 0) return undefined;
  const at = (outcome: Outcome): string =>
    [
      ...Map.groupBy(
        tried.filter((trial) => trial.outcome === outcome),
        ({ endpoint: door }) => door,
      ),
    ]
      .map(
        ([door, each]) =>
          `${nameOf(door)} of ${[...new Set(each.map(({ node }) => printable(node)))].join(', ')}`,
      )
      .join(', ');
  const [letIn, refused] = [at(Outcome.LET_IN), at(Outcome.REFUSED)];
  const known: readonly Outcome[] = [Outcome.LET_IN, Outcome.REFUSED];
  const unproved = tried.filter(({ outcome }) => !known.includes(outcome)).length;
  return [
    ...(letIn === '' ? [] : [`let in at ${letIn}`]),
    ...(refused === '' ? [] : [`refused at ${refused}`]),
    ...(unproved > 0 ? [`not proved at ${unproved} of ${tried.length}`] : []),
  ].join('; ');
}

function wordOf({ outcome }: ProbeResult): string {
  if (outcome === Outcome.REFUSED) return 'refused';
  return outcome === Outcome.LET_IN ? 'is let in' : 'not proved';
}

/** They come as they were made; people look for a door. */
function byDoorAndNode(one: ProbeResult, other: ProbeResult): number {
  const doors = Object.keys(DOORS).toReversed(); // those that are not known here come last
  const apart = doors.indexOf(other.endpoint) - doors.indexOf(one.endpoint);
  return apart === 0 ? one.node.localeCompare(other.node, 'en', { numeric: true }) : apart;
}

/** As the agent calls it where this version knows no better. */
function nameOf(door: string): string {
  return DOORS[door] ?? printable(door);
}
