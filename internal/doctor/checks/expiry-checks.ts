import { supportOf } from '../../bundle/index.ts';
import { formatDuration, formatExpiry } from '../../clock/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import type { ClusterFacts, NodeFacts } from '../cluster-facts.ts';
import { judgeMembers, judgePart, notMeasured, type Observe } from '../observe.ts';
import {
  CA_WARNING_MS,
  CERTIFICATE_WARNING_MS,
  COLLATERAL_WARNING_MS,
  DOCUMENT_WARNING_MS,
  JOIN_RECENT_MS,
  RENEWAL_FAILING_SHARE,
  ROTATION_WARNING_MS,
  SUPPORT_WARNING_MS,
} from '../thresholds.ts';

/**
 * The kinds of owner-signed documents that the cluster needs all the time. Documents of the other kinds admit one
 * machine each, so nothing breaks when they expire.
 */
export const LASTING_DOCUMENTS: readonly string[] = ['owners', 'policy', 'operators', 'settings'];
/** The kinds that `cluster sign` signs again each time. */
const SIGNED_AGAIN: readonly string[] = ['policy', 'operators', 'settings'];
const CA_FILE = /(^|[/-])ca\.crt$/;

/** Whether a certificate that a node reports is a CA certificate. */
export function isAuthority(name: string): boolean {
  return CA_FILE.test(name);
}

/** The settings have no signature: an older release created the cluster, or somebody deleted the signature. */
const UNSIGNED_SETTINGS = {
  subject: 'document settings',
  figure: 'none',
  problem: warned('no owner has signed the settings of joining machines, so no machine can join'),
};

interface End {
  readonly subject: string;
  readonly node?: string;
  readonly endMs: number;
  readonly marginMs: number;
  readonly threshold: string;
}

/** Judges an expiry time: an error after that time, and a warning shortly before it. */
export function judgeEnd(takenMs: number, { subject, node, endMs, marginMs, threshold }: End): Observation {
  const figure = formatExpiry(endMs, takenMs);
  const cause = `${subject} ${figure}`;
  const problem = endMs <= takenMs ? failed(cause) : warned(endMs - takenMs <= marginMs ? cause : undefined);
  return { subject, ...(node !== undefined && { node }), figure, threshold, problem };
}

/** Judges, for each node, the certificate that expires first. CAs have a check of their own. */
export const certificate: Observe = (facts) => {
  const lifetimeMs = facts.records.ok ? facts.records.value.shortestLifetimeMs : undefined;
  const marginMs = Math.min(CERTIFICATE_WARNING_MS, (lifetimeMs ?? Infinity) * RENEWAL_FAILING_SHARE);
  return firstToEnd(facts, marginMs, (name) => !isAuthority(name));
};

/** Judges, for each node, the CA that expires first. */
export const ca: Observe = (facts) => firstToEnd(facts, CA_WARNING_MS, isAuthority);

function firstToEnd(
  facts: ClusterFacts,
  marginMs: number,
  belongs: (name: string) => boolean,
): readonly Observation[] {
  const threshold = `expires in more than ${formatDuration(marginMs)}`;
  const { local } = facts;
  const judge = ({
    name: node,
    certificates,
  }: Pick<NodeFacts, 'name' | 'certificates'>): readonly Observation[] => {
    const [first] = certificates
      .filter(({ name }) => belongs(name))
      .toSorted((a, b) => a.notAfterMs - b.notAfterMs);
    if (first === undefined) return [];
    const subject = `${first.name} of ${node}`;
    return [judgeEnd(facts.takenMs, { subject, node, endMs: first.notAfterMs, marginMs, threshold })];
  };
  return local === undefined
    ? judgeMembers(facts, threshold, judge)
    : judge({ name: local.node, certificates: local.certificates });
}

/** Judges the rotation of the keys that control planes share. */
export const keys: Observe = ({ keys: part, takenMs }) => {
  const threshold = `each phase at most ${formatDuration(ROTATION_WARNING_MS)}`;
  return judgePart(part, { subject: 'shared keys', threshold }, (value) => {
    const subject = 'shared keys';
    const unsigned = `no owner has signed the keys of generation ${value.generation}`;
    if (value.isDone) {
      const figure = `generation ${value.generation}, no rotation`;
      const problem = value.needsOwner === true ? warned(`${unsigned}, so no machine can join`) : undefined;
      return [{ subject, figure, threshold, ...(problem === undefined ? {} : { problem }) }];
    }
    const ageMs = takenMs - value.phaseSinceMs;
    const figure = `phase ${value.phase} for ${formatDuration(ageMs)}`;
    const waits = value.awaited.length === 0 ? '' : `; it waits for ${value.awaited.join(', ')}`;
    const cause = `the rotation to generation ${value.generation} is in ${figure}${waits}`;
    // The rotation waits for an owner to sign, so this is a problem at once, and not only after a time limit.
    const problem =
      value.needsOwner === true ? `${unsigned}${waits}` : ageMs > ROTATION_WARNING_MS ? cause : undefined;
    return [{ subject, figure, threshold, problem: warned(problem) }];
  });
};

/** Judges when the owner-signed documents of `LASTING_DOCUMENTS` expire. */
export const document: Observe = ({ documents, takenMs }) => {
  const threshold = `ends in more than ${formatDuration(DOCUMENT_WARNING_MS)}`;
  return judgePart(documents, { subject: 'owner documents', threshold }, (all) => {
    const needed = all.filter(({ kind }) => LASTING_DOCUMENTS.includes(kind));
    const missing = needed.some(({ kind }) => kind === 'settings') ? [] : [UNSIGNED_SETTINGS];
    const ends = needed.map(({ kind, endsMs: endMs }) =>
      judgeEnd(takenMs, {
        ...{ subject: `document ${kind}`, endMs, threshold },
        marginMs: DOCUMENT_WARNING_MS,
      }),
    );
    return [...ends, ...missing.map((each) => ({ ...each, threshold }))];
  });
};

/** Judges whether an owner has signed the lasting documents again since a node found an old copy of its disk. */
export const oldDisk: Observe = (facts) => {
  const threshold = 'the newest disk, or documents signed later';
  const { documents } = facts;
  return judgeMembers(facts, threshold, ({ name, oldDiskMs }) => {
    const seen = { subject: `disk of ${name}`, node: name, threshold };
    if (oldDiskMs === undefined) return [{ ...seen, figure: 'no old copy found' }];
    const found = `old copy found ${formatDuration(facts.takenMs - oldDiskMs)} ago`;
    if (!documents.ok) return [notMeasured(seen, documents.error)];
    const isSignedLater = documents.value
      .filter(({ kind }) => SIGNED_AGAIN.includes(kind))
      .every(({ issuedMs = 0 }) => issuedMs > oldDiskMs);
    if (isSignedLater) return [{ ...seen, figure: `${found}, signed again since` }];
    return [{ ...seen, figure: found, problem: warned(`node ${name} runs on an old copy of its disk`) }];
  });
};

/** Judges the collateral that expires first. */
export const collateral: Observe = ({ collateral: part, takenMs }) => {
  const threshold = `expires in more than ${formatDuration(COLLATERAL_WARNING_MS)}`;
  return judgePart(part, { subject: 'collateral', threshold }, (items) => {
    const [first] = items.toSorted((a, b) => a.expiresMs - b.expiresMs);
    if (first === undefined) return [{ subject: 'collateral', figure: 'none uploaded', threshold }];
    const { what: subject, expiresMs: endMs } = first;
    return [judgeEnd(takenMs, { subject, endMs, threshold, marginMs: COLLATERAL_WARNING_MS })];
  });
};

/** Judges when the support of each minor version of Kubernetes that a node runs ends. */
export const kubernetesSupport: Observe = (facts) => {
  const threshold = `ends in more than ${formatDuration(SUPPORT_WARNING_MS)}`;
  return judgePart(facts.records, { subject: 'Kubernetes', threshold }, ({ nodes }) =>
    versionsOf(nodes).map((version) => {
      const support = supportOf(version);
      if (support === undefined)
        return notMeasured(
          { subject: `support of Kubernetes ${version}`, threshold },
          `this program does not know when the support of Kubernetes ${version} ends`,
        );
      const subject = `support of Kubernetes ${support.minor}`;
      const leftMs = support.endMs - facts.takenMs;
      const figure =
        leftMs > 0 ? `ends in ${formatDuration(leftMs)}` : `ended ${formatDuration(-leftMs)} ago`;
      // Never an error: the cluster works on.
      return {
        ...{ subject, figure, threshold },
        problem: warned(leftMs <= SUPPORT_WARNING_MS ? `the ${subject} ${figure}` : undefined),
      };
    }),
  );
};

/** One version of Kubernetes for each minor that a node runs. A node that does not run Kubernetes yet reports none. */
export function versionsOf(nodes: readonly NodeFacts[]): readonly string[] {
  const running = nodes.filter(({ state, kubernetesVersion }) => state === 'up' && kubernetesVersion !== '');
  const minors = running.map(
    ({ kubernetesVersion: version }) => [supportOf(version)?.minor ?? version, version] as const,
  );
  return [...new Map(minors).values()].toSorted();
}

/** Judges whether join requests were refused lately. */
export const join: Observe = ({ joins, takenMs }) => {
  const threshold = `none refused within ${formatDuration(JOIN_RECENT_MS)}`;
  return judgePart(joins, { subject: 'join requests', threshold }, (all) => {
    const refused = all.filter(
      ({ state, lastSeenMs }) => state === 'refused' && takenMs - lastSeenMs < JOIN_RECENT_MS,
    );
    const pending = all.filter(({ state }) => state === 'pending').length;
    if (refused.length === 0)
      return [{ subject: 'join requests', figure: `0 refused, ${pending} pending`, threshold }];
    return refused.map(({ name, code, message, lastSeenMs }) => ({
      subject: `join of ${name}`,
      figure: `refused ${formatDuration(takenMs - lastSeenMs)} ago`,
      threshold,
      problem: warned(
        `machine ${name} was refused: ${[code, message].filter((each) => each !== '').join(': ')}`,
      ),
    }));
  });
};
