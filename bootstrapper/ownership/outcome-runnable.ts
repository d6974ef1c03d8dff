import { create, toBinary } from '@bufbuild/protobuf';
import { when } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { InitResultSchema } from '../../initproto/gen/init_pb.js';
import type { Enrolment } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';
import { type InitJob, wireResult } from '../initserver/index.ts';
import type { RoleValues } from '../roleserve/index.ts';
import { ensureClusterCa } from '../credentials/index.ts';
import { buildInitOutcome } from './init-outcome.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

/** Inputs of the result of an init. */
export interface OutcomeOptions extends Pick<SystemPorts, 'files' | 'clock'> {
  readonly job: InitJob;
  readonly enrolment: Enrolment<Membership>;
  readonly reads: Pick<RoleValues, 'kubernetesStatus'>;
  readonly driver: {
    /** Saves the result in the cluster, so that every curator can give it to the owner. */
    saveInitResult(initId: string, result: Uint8Array, signal: AbortSignal): Promise<void>;
  };
}

/** Builds and saves the result of the init, once this node is a member and its API server is ready. */
export function outcomeRunnable(options: OutcomeOptions): Runnable {
  const { job, enrolment, reads, files, clock, driver } = options;
  return async (scope) => {
    scope.healthy();
    scope.waiting('init request');
    const record = await when(job.accepted, () => true, scope.signal);
    scope.waiting('membership');
    // If enrolment fails, it reports its own error and there is no result.
    const { membership } = await when(enrolment.status, (status) => status.state === 'Running', scope.signal);
    scope.waiting('Kubernetes control plane');
    await when(reads.kubernetesStatus, (status) => status !== undefined, scope.signal);
    const finished = job.outcome.peek();
    if (!finished.set || finished.value === undefined) {
      const nowMs = (): number => clock.nowMs();
      const authority = await ensureClusterCa(
        { files, nowMs },
        { directory: AGENT_PATHS.ca, clusterName: membership.clusterName },
      );
      const outcome = await buildInitOutcome({ files, authority, nowMs }, record, membership);
      const result = toBinary(InitResultSchema, create(InitResultSchema, wireResult(outcome)));
      await driver.saveInitResult(record.initId, result, scope.signal);
      await job.finish(outcome);
    }
    scope.done();
  };
}
