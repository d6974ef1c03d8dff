import type { CheckCode } from '../alerts/alerts.ts';

/** What a command is about to do to the members of etcd, or to their data. */
export type GatedAction =
  /** A node becomes a control plane: `node approve`, `node set-role --control-plane`. */
  | 'member-joins'
  /** A control plane leaves: `node remove`, `node reset`, `node set-role --worker`. */
  | 'member-leaves'
  /** One control plane restarts: `node reboot`. */
  | 'member-restarts'
  /** All control planes restart their members, one after the other: `keys rotate`. */
  | 'all-members-restart'
  /** A control plane copies its data: `backup create`. */
  | 'backup'
  /** The data of this machine becomes that of the cluster: `recover quorum`. */
  | 'recovery';

/** A finding of one check that refuses an action. */
export interface GateRule {
  readonly code: CheckCode;
  /** The mildest grade that refuses. */
  readonly from: 'warning' | 'error';
  /**
   * `own`: only findings about the node of the action; `others`: about every other control plane; `all`: both. A finding
   * about the whole cluster always counts.
   */
  readonly about: 'own' | 'others' | 'all';
  /** Ignored if the node of the action does not respond: without it, the others are not worse off. */
  readonly ifServing?: true;
}

const error = (about: GateRule['about'], ...codes: readonly CheckCode[]): readonly GateRule[] =>
  codes.map((code) => ({ code, from: 'error', about }));
const warning = (about: GateRule['about'], ...codes: readonly CheckCode[]): readonly GateRule[] =>
  codes.map((code) => ({ code, from: 'warning', about }));

/** Etcd must accept the change, and a good member does not start while a damaged one runs. */
const DATA = ['doctor-etcd-full', 'doctor-etcd-corrupt', 'doctor-etcd-content'] as const;
/** A member whose disk fails or is full will stop: a cluster that counts on it has a smaller margin than its quorum shows. */
const DISK = ['doctor-machine', 'doctor-disk-space', 'doctor-disk-inodes'] as const;

/**
 * The checks that are gates, for each action. Of `doctor-machine`, only a read-only file system counts. `gateOf()` adds one rule
 * that is no finding of the moment: etcd must keep its quorum without the node.
 */
export const GATE_RULES: Readonly<Record<GatedAction, readonly GateRule[]>> = {
  // Certificates of a control plane whose clock is wrong are not valid on the new one. A lost member is removed before another one
  // is added, and a learner that is stuck keeps the next one waiting (etcd.io/docs, "Runtime reconfiguration").
  'member-joins': [
    ...error('all', 'doctor-clock', ...DATA, ...DISK),
    ...warning('all', 'doctor-etcd-quorum', 'doctor-etcd-learner'),
  ],
  'member-leaves': [
    ...error('others', ...DATA),
    ...error('others', ...DISK).map((rule) => ({ ...rule, ifServing: true as const })),
  ],
  'member-restarts': [
    ...error('others', ...DATA),
    ...error('others', ...DISK).map((rule) => ({ ...rule, ifServing: true as const })),
  ],
  'all-members-restart': error('all', 'doctor-clock', 'doctor-etcd-quorum', ...DATA, ...DISK),
  backup: error('own', 'doctor-etcd-content', 'doctor-etcd-corrupt'),
  recovery: error('own', 'doctor-machine-requirements', 'doctor-disk-space', 'doctor-disk-inodes'),
};

/** Problems because of which another control plane takes the backup if one can. None of them makes the data wrong. */
export const BACKUP_DRAWBACKS: readonly CheckCode[] = ['doctor-etcd-member', ...DISK];
