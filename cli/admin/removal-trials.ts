import { NodeHealth, NodeRole, NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import {
  NodeStreams,
  Trial_Outcome as Outcome,
  type ProbeReport,
  type Trial,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { describeError } from '../../internal/errors/index.ts';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../cluster/index.ts';
import { ask } from './desk.ts';
import type { RemovalProof } from './removal-traces.ts';

/** A curator gives a control plane two minutes. */
const TRIAL_MS = 130_000;

/** A key that every control plane has: no record can take it back. */
export interface SharedKey {
  readonly key: string;
  /** What somebody with a copy could do. */
  readonly harm: string;
  /** Whether what it makes was let in when it was tried; undefined where nothing of it can be tried. */
  readonly tried?: string;
}

/** In the order of what they open. The paper is what is tried of a key (bootstrapper/impostor). */
const SHARED_KEYS: readonly (SharedKey & { readonly paper?: string })[] = [
  {
    key: 'etcd clients CA',
    harm: "read and write all of etcd as its root, past every control plane's API",
    paper: 'etcd-client',
  },
  { key: 'etcd peers CA', harm: 'speak to members of etcd as one of them', paper: 'etcd-peer' },
  { key: 'Kubernetes CA', harm: 'be any user of Kubernetes, system:masters too', paper: 'kubernetes-user' },
  { key: 'front proxy CA', harm: 'be an aggregated API for the API servers' },
  { key: 'service account key', harm: 'make tokens of any service account' },
  { key: 'encryption key', harm: 'read secrets in a copy of etcd' },
  {
    key: 'cluster CA',
    harm: 'show a certificate of the cluster; without a key on record every curator refuses it',
  },
];

const DOORS: Readonly<Record<string, string>> = {
  'etcd-client': "etcd's client port",
  'etcd-peer': "etcd's peer port",
  'api-server': 'the API server',
  kubelet: 'the kubelet',
};

/** What came of showing papers in the name of a removed node. */
export interface TriedPapers {
  /** Its own papers, and a client's to a peer: one for each door, all of which must refuse. */
  readonly proofs: readonly RemovalProof[];
  /** Empty for a node that held none of them. */
  readonly sharedKeys: readonly SharedKey[];
}

/** Has a control plane that is there try them; who can't is asked no more, and none of them is a proof that is missing. */
export async function tryPapers(context: CommandContext, removed: Node): Promise<TriedPapers> {
  const heldKeys = mayHaveHeldKeys(removed);
  const { nodes } = await ask(context, (curator, call) => curator.listNodes({}, call));
  const failures: string[] = [];
  for (const { nodeId, name } of nodes.filter(isControlPlane)) {
    try {
      const probe = { removedNodeId: removed.nodeId, heldKeys };
      const call = { signal: context.signal, timeoutMs: TRIAL_MS };
      const { report } = await ask(context, (_, _call, of) =>
        of(NodeStreams).probeRemoved({ node: nodeId, probe }, call),
      );
      if (report !== undefined) return triedFrom(report, heldKeys);
      failures.push(`${name}: an answer without a report`);
    } catch (error) {
      context.signal.throwIfAborted();
      failures.push(`${name}: ${describeError(error)}`);
    }
  }
  const actual = `not answered: ${failures.join('; ') || 'no control plane is healthy'}`;
  const proofs = [{ what: 'its papers at every door', ok: false, actual: printable(actual) }];
  return { proofs, sharedKeys: heldKeys ? SHARED_KEYS.map(({ key, harm }) => ({ key, harm })) : [] };
}

/** A removal that was interrupted has taken the roles already: who has none is not taken for a worker. */
function mayHaveHeldKeys({ roles }: Pick<Node, 'roles'>): boolean {
  return roles.length === 0 || wasControlPlane({ roles });
}

function wasControlPlane({ roles }: Pick<Node, 'roles'>): boolean {
  return roles.includes(NodeRole.CONSENSUS_MEMBER);
}

function isControlPlane({ health, roles, state }: Node): boolean {
  return state === NodeState.UP && health === NodeHealth.HEALTHY && roles.includes(NodeRole.CONSENSUS_MEMBER);
}

/** A report as rows for people. Pure. */
export function triedFrom({ trials, away }: ProbeReport, heldKeys: boolean): TriedPapers {
  const own = trials.filter((trial) => !isOfSharedKey(trial));
  const doors = Map.groupBy(own, ({ door, node }) => `its papers at ${nameOf(door)} of ${printable(node)}`);
  const proofs = [...doors].map(([what, each]) => ({ what, ...ownResult(each) }));
  const unasked = away.map((node) => ({
    what: `its papers at ${printable(node)}`,
    ok: true,
    actual: 'is silent and was not asked',
  }));
  // Nobody would have refused: nothing is proved by asking nobody.
  const none = { what: 'its papers at every door', ok: false, actual: 'no door was found' };
  const sharedKeys = SHARED_KEYS.map(({ key, harm, paper }) => {
    const tried = paper === undefined ? undefined : sharedResult(trials, paper);
    return tried === undefined ? { key, harm } : { key, harm, tried };
  });
  return {
    proofs: [...(proofs.length === 0 ? [none] : proofs), ...unasked],
    sharedKeys: heldKeys ? sharedKeys : [],
  };
}

/** What a shared key makes, at the doors that go by it. A client at a peer's door is a stranger like any other. */
function isOfSharedKey({ paper, door }: Trial): boolean {
  return paper === 'kubernetes-user' || paper === 'etcd-peer' || (paper === 'etcd-client' && door === paper);
}

function ownResult(trials: readonly Trial[]): Pick<RemovalProof, 'ok' | 'actual'> {
  const open = trials.filter(({ outcome }) => outcome !== Outcome.REFUSED);
  const shown = open.length === 0 ? trials : open;
  const said = shown.map((trial) => `${trial.paper} ${wordOf(trial)} (${printable(trial.said)})`);
  return { ok: open.length === 0, actual: said.join(', ') };
}

function sharedResult(trials: readonly Trial[], paper: string): string | undefined {
  const tried = trials.filter((trial) => trial.paper === paper && isOfSharedKey(trial));
  if (tried.length === 0) return undefined;
  const at = (outcome: Outcome): readonly string[] =>
    tried
      .filter((trial) => trial.outcome === outcome)
      .map(({ door, node }) => `${nameOf(door)} of ${printable(node)}`);
  const letIn = at(Outcome.LET_IN);
  const refused = at(Outcome.REFUSED);
  const unproved = tried.length - letIn.length - refused.length;
  return [
    ...(letIn.length > 0 ? [`let in at ${letIn.join(', ')}`] : []),
    ...(refused.length > 0 ? [`refused at ${refused.join(', ')}`] : []),
    ...(unproved > 0 ? [`not proved at ${unproved} of ${tried.length}`] : []),
  ].join('; ');
}

function wordOf({ outcome }: Trial): string {
  if (outcome === Outcome.REFUSED) return 'refused';
  return outcome === Outcome.LET_IN ? 'is let in' : 'not proved';
}

/** As the agent calls it where this version knows no better. */
function nameOf(door: string): string {
  return DOORS[door] ?? printable(door);
}

/** In plain words what is not revoked; nothing for a node that held no such keys. */
export function describeSharedKeys(
  keys: readonly SharedKey[],
  removed: { readonly isLost: boolean; readonly roles: readonly NodeRole[] },
): readonly string[] {
  if (keys.length === 0) return [];
  const { isLost } = removed;
  return [
    '',
    wasControlPlane({ roles: [...removed.roles] }) ? HELD : MAY_HAVE_HELD,
    isLost
      ? 'They are not wiped from its disk, and not revoked by this:'
      : 'They were wiped from its disk; a copy that somebody made before is not revoked by this:',
    ...keys.flatMap(({ key, harm, tried }) => [
      `  ${key.padEnd(20)}${harm}`,
      ...(tried === undefined ? [] : [`  ${''.padEnd(20)}tried now: ${tried}`]),
    ]),
    ...(isLost ? ['Unless the disk is destroyed, whoever has it can do so.'] : []),
  ];
}

const HELD = 'It held keys that all control planes share.';
const MAY_HAVE_HELD = 'If it was a control plane, it held keys that all of them share.';
