import type { ClusterFacts, FileSystemFacts, NodeFacts, RecordFacts } from '../cluster-facts.ts';
import { diagnose, type Finding } from '../diagnose.ts';
import { GATE_SPACE_BYTES, LEARNER_WARNING_MS } from '../thresholds.ts';
import { BACKUP_DRAWBACKS, GATE_RULES, type GatedAction, type GateRule } from './gate-rules.ts';

/** A change of the roles of a node, its removal or its restart. */
export interface GatedChange {
  readonly action: Exclude<GatedAction, 'backup' | 'recovery'>;
  /** Name or ID of the node; empty for a machine that is no node yet, and for all nodes. */
  readonly node: string;
}

/** The checks of `cluster preflight` that matter to the data of a machine that is a node already. */
const DATA_REQUIREMENTS = ['preflight-read-only', 'preflight-clock'];
const QUORUM = 'doctor-etcd-quorum';

/**
 * The problem that a change of the members of etcd must wait for; undefined if there is none, or if the change leaves etcd as it is. A node whose own
 * member is damaged may be taken out: that is the cure.
 */
export function gateOf(facts: ClusterFacts, { action, node: which }: GatedChange): Finding | undefined {
  const { records } = facts;
  if (!records.ok) return undefined; // the change fails for the same reason
  const node = records.value.nodes.find(({ id, name }) => id === which || name === which);
  if (node !== undefined && isUnchanged(node, action)) return undefined;
  const judged = judgedFacts(facts, action);
  const findings = diagnose(judged);
  const isCure = findings.some(
    ({ code, grade, node: of }) => code === 'doctor-etcd-content' && grade === 'error' && of === node?.name,
  );
  return (
    findings.find((each) =>
      GATE_RULES[action].some(
        (rule) =>
          refuses(rule, each, node?.name) &&
          isControlPlane(each.node, records.value, node) &&
          !(rule.ifServing === true && node !== undefined && node.health !== 'healthy') &&
          !(isCure && each.code === 'doctor-etcd-corrupt'),
      ),
    ) ??
    (node && lostQuorum(judged, node, action))
  );
}

/**
 * The problem that makes the data of this control plane the wrong data to back up; undefined if there is none. Without a majority nobody
 * can say which member is right, so this is a problem of every control plane.
 * @param node name of the control plane
 */
export function backupGateOf(facts: ClusterFacts, node: string): Finding | undefined {
  return diagnose(facts).find((each) => GATE_RULES.backup.some((rule) => refuses(rule, each, node)));
}

/** The problem because of which another control plane should take the backup; undefined if there is none. @param node its name */
export function backupDrawbackOf(facts: ClusterFacts, node: string): Finding | undefined {
  return diagnose(judgedFacts(facts, 'backup')).find(
    (each) => each.grade === 'error' && each.node === node && BACKUP_DRAWBACKS.includes(each.code as never),
  );
}

/**
 * The problem because of which this machine is the wrong one to recover the quorum from: it could not keep what it recovers.
 * @param facts collected on the machine
 */
export function recoveryGateOf(facts: ClusterFacts): Finding | undefined {
  const { local } = facts;
  if (local === undefined) return undefined;
  const { requirements } = local;
  const kept = requirements.ok && requirements.value.filter(({ code }) => DATA_REQUIREMENTS.includes(code));
  const judged = {
    ...facts,
    local: {
      ...local,
      ...(kept && { requirements: { ok: true as const, value: kept } }),
      fileSystems: local.fileSystems.map(roomy),
    },
  };
  return diagnose(judged).find((each) => GATE_RULES.recovery.some((rule) => refuses(rule, each, local.node)));
}

/** Whether the action leaves the members of etcd as they are. */
function isUnchanged({ isControlPlane: isMember }: NodeFacts, action: GatedChange['action']): boolean {
  if (action === 'member-joins') return isMember;
  return action !== 'all-members-restart' && !isMember;
}

function refuses({ code, from, about }: GateRule, finding: Finding, node: string | undefined): boolean {
  if (finding.code !== code) return false;
  if (finding.grade !== 'error' && !(from === 'warning' && finding.grade === 'warning')) return false;
  if (finding.node === undefined || about === 'all') return true;
  return (finding.node === node) === (about === 'own');
}

/** Whether a finding counts for etcd: it is about a control plane, the node itself, or the whole cluster. */
function isControlPlane(
  name: string | undefined,
  { nodes }: RecordFacts,
  changed: NodeFacts | undefined,
): boolean {
  if (name === undefined || name === changed?.name) return true;
  return nodes.find((each) => each.name === name)?.isControlPlane !== false;
}

/**
 * The facts as a gate judges them. A large disk has room for etcd although little of it is free. Of the settings of machines only a read-only file system counts: the others do not stop a
 * member that runs. Before another member joins, a control plane that has just joined counts as healthy: its first heartbeat may
 * come a moment later.
 */
function judgedFacts(facts: ClusterFacts, action: GatedAction): ClusterFacts {
  const { records } = facts;
  if (!records.ok) return facts;
  const isYoung = ({ createdMs }: NodeFacts): boolean =>
    action === 'member-joins' && facts.takenMs - createdMs < LEARNER_WARNING_MS;
  const nodes = records.value.nodes.map((node) => ({
    ...node,
    ...(isYoung(node) && { health: 'healthy' }),
    ...(node.machine && {
      machine: {
        ...node.machine,
        problems: node.machine.problems.filter(({ code }) => code === 'preflight-read-only'),
      },
    }),
  }));
  const young = new Set(nodes.filter(isYoung).map(({ name }) => name));
  return {
    ...facts,
    records: { ok: true, value: { ...records.value, nodes } },
    kubelets: facts.kubelets.map(({ node, answer }) => ({
      node,
      answer: answer.ok ? { ok: true, value: { fileSystems: answer.value.fileSystems.map(roomy) } } : answer,
    })),
    metrics: facts.metrics.filter(({ node, answer }) => !young.has(node) || hasMembers(answer)),
  };
}

/** A file system with room for etcd, as one that is empty. */
function roomy(disk: FileSystemFacts): FileSystemFacts {
  return disk.availableBytes > GATE_SPACE_BYTES ? { ...disk, availableBytes: disk.capacityBytes } : disk;
}

function hasMembers(answer: ClusterFacts['metrics'][number]['answer']): boolean {
  return answer.ok && answer.value.stateEtcd !== undefined && answer.value.kubernetesEtcd !== undefined;
}

/**
 * The finding about an etcd that has too few healthy voters for a quorum without this node, although another one is down already.
 * While all voters are healthy, the loss ends with the restart or the removal, and the command itself asks about it.
 */
function lostQuorum(facts: ClusterFacts, node: NodeFacts, action: GatedAction): Finding | undefined {
  if (action !== 'member-leaves' && action !== 'member-restarts') return undefined;
  const after = diagnose(withoutNode(facts, node, action)).filter(({ code }) => code === QUORUM);
  const before = diagnose(facts).filter(({ code, grade }) => code === QUORUM && grade === 'warning');
  return before
    .map((now) => ({ now, then: after.find(({ subject }) => subject === now.subject) }))
    .filter(({ then }) => then?.grade === 'error')
    .map(({ now, then }) => ({
      ...now,
      cause: `${now.cause}; without ${node.name}, ${then?.cause ?? ''}`,
    }))[0];
}

/** The facts after the node has left, or while it restarts. */
function withoutNode(facts: ClusterFacts, { id }: NodeFacts, action: GatedAction): ClusterFacts {
  const { records } = facts;
  if (!records.ok) return facts;
  const { nodes, stateEtcd, kubernetesEtcd } = records.value;
  const left = (etcd: RecordFacts['stateEtcd']): RecordFacts['stateEtcd'] => ({
    ...etcd,
    members: etcd.members.filter(({ name }) => action !== 'member-leaves' || name !== id),
  });
  return {
    ...facts,
    records: {
      ok: true,
      value: {
        ...records.value,
        stateEtcd: left(stateEtcd),
        ...(kubernetesEtcd && { kubernetesEtcd: left(kubernetesEtcd) }),
        nodes: nodes.map((each) => (each.id === id ? { ...each, health: 'silent' } : each)),
      },
    },
  };
}
