import { combine } from '../../internal/event/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import type { Membership } from '../membership/index.ts';
import type { PhaseProgress, PhaseReporter } from '../phases/index.ts';
import type { MemberState } from './node-membership.ts';
import type {
  BootstrapData,
  LocalControlPlane,
  RoleState,
  RoleValues,
  RoleValueWriters,
} from './role-values.ts';

type InputName = 'bootstrapData' | 'clusterMembership' | 'localRoles' | 'localComponents';

/** How the control plane starts: it creates a cluster, or serves as a member of an existing one. */
export type ControlPlaneStart =
  | { readonly kind: 'bootstrap'; readonly data: BootstrapData }
  | { readonly kind: 'serve'; readonly membership: Membership };

/** Inputs and ports (injected dependencies) of the control plane worker. */
export interface ControlPlaneWorkerOptions {
  readonly reads: Pick<RoleValues, InputName>;
  readonly writes: Pick<RoleValueWriters, 'localControlPlane'>;
  /** Publishes this node's membership in the cluster that it has just created. */
  readonly onClusterCreated: (state: MemberState) => void;
  readonly phases: PhaseReporter;
  readonly driver: ControlPlaneDriver;
  /**
   * Seals the cluster share of the state disk to the TPM, so that a cold start of the control planes waits for nobody. Says what it
   * waits for if a signer has the share.
   */
  readonly keepOwnShare: (say: (text: string) => void, signal: AbortSignal) => Promise<void>;
}

/**
 * Only an assigned or removed role starts or stops the worker. Changed peers, labels or certificates do not
 * restart it. Pure.
 */
export function planControlPlane(state: Pick<RoleState, InputName>): Plan<ControlPlaneStart> {
  const { bootstrapData: data, clusterMembership: membership, localRoles, localComponents } = state;
  if (data === undefined && localRoles === undefined) return { kind: 'wait', why: 'the roles of this node' };
  if (data === undefined && localRoles?.has('ConsensusMember') !== true)
    return { kind: 'stop', why: 'idle: role absent' };
  if (localComponents?.controlPlane !== true) return { kind: 'wait', why: 'the components' };
  if (data !== undefined) return { kind: 'start', config: { kind: 'bootstrap', data } };
  if (membership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  return { kind: 'start', config: { kind: 'serve', membership } };
}

/** Runs etcd and the curator on nodes with the role, and creates the cluster on the first node. */
export function controlPlaneWorker(options: ControlPlaneWorkerOptions): Runnable {
  const { bootstrapData, clusterMembership, localRoles, localComponents } = options.reads;
  return launcher({
    input: combine({ bootstrapData, clusterMembership, localRoles, localComponents }),
    plan: planControlPlane,
    start: (scope, start) => serve(options, scope, start),
    tearDown: async ({ signal }) => {
      // Keeps running while the cluster needs this control plane.
      await options.driver.checkStop(signal);
      options.writes.localControlPlane.set(undefined);
      await options.driver.stop(signal);
    },
  });
}

async function serve(
  { driver, phases, writes, onClusterCreated, keepOwnShare }: ControlPlaneWorkerOptions,
  scope: Scope,
  start: ControlPlaneStart,
): Promise<void> {
  const { signal } = scope;
  writes.localControlPlane.set(undefined);
  await phases.run('consensus', async (progress) => {
    await keepOwnShare((text) => progress.report(text), signal);
    await driver.startConsensus(start, sayTo(progress), signal);
  });
  const createCluster = async (data: BootstrapData): Promise<Membership> => {
    const created = await phases.run('membership', () => driver.createCluster(data, signal));
    onClusterCreated(created);
    return created.membership;
  };
  const membership = start.kind === 'serve' ? start.membership : await createCluster(start.data);
  const controlPlane = await phases.run('curator', (progress) =>
    driver.startCurator(membership, signal, sayTo(progress)),
  );
  writes.localControlPlane.set(controlPlane);
  scope.run('repair', async (repair) => {
    repair.healthy();
    repair.waiting('removed control planes');
    await driver.repairMembers(repair.signal);
  });
  scope.run('persons', async (persons) => {
    persons.healthy();
    persons.waiting('changes of the operators');
    await driver.followPersons(membership, persons.signal);
  });
}

/** Receives what a step waits for, and the last error. */
export type Say = (text: string, lastError?: unknown) => void;

function sayTo(progress: PhaseProgress): Say {
  return (text, lastError) => progress.report(text, { lastError });
}

/**
 * Runs etcd, the first records of a cluster, and the curator. Each step may be repeated, and is durable when
 * its promise resolves.
 */
export interface ControlPlaneDriver {
  startConsensus(start: ControlPlaneStart, say: Say, signal: AbortSignal): Promise<void>;
  /**
   * Creates the cluster or finds the existing one; membership and roles are on disk when the promise
   * resolves.
   */
  createCluster(data: BootstrapData, signal: AbortSignal): Promise<MemberState>;
  startCurator(membership: Membership, signal: AbortSignal, say?: Say): Promise<LocalControlPlane>;
  /** Removes etcd members of removed nodes, until the signal fires. */
  repairMembers(signal: AbortSignal): Promise<void>;
  /** Tells the API server of this node which people are on record, until the signal fires. */
  followPersons(membership: Membership, signal: AbortSignal): Promise<void>;
  /** Throws while the cluster needs the control plane on this node. */
  checkStop(signal: AbortSignal): Promise<void>;
  /** Stops the whole control plane after the role was removed. Does nothing when no part of it runs. */
  stop(signal: AbortSignal): Promise<void>;
}
