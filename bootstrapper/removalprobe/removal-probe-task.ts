import { create, toBinary } from '@bufbuild/protobuf';
import { Namespace } from '../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import {
  ProbeReportSchema,
  ProbeResult_Outcome as Outcome,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { EtcdMembers } from '../controlplane/index.ts';
import type { RemovalProbeRequest } from './endpoints.ts';
import { RemovalProbeError } from './errors.ts';
import { runRemovalProbe, type RemovalProbePorts } from './removal-probe.ts';

const OUTCOMES = {
  refused: Outcome.REFUSED,
  admitted: Outcome.LET_IN,
  inconclusive: Outcome.UNPROVED,
} as const;

/**
 * Runs one removal probe at a time for an operator; resolves with the bytes of a `ProbeReport`.
 * @param etcdMembers clients of the local etcd members with root credentials; undefined unless this node is a
 * serving member
 */
export function createRemovalProbeTask(
  ports: Omit<RemovalProbePorts, 'etcd' | 'listMembers'>,
  etcdMembers: () => EtcdMembers | undefined,
): (request: RemovalProbeRequest, signal: AbortSignal) => Promise<Uint8Array> {
  let isRunning = false;
  return async (request, signal) => {
    const members = etcdMembers();
    const doing = `probing for removed node ${request.nodeId}`;
    if (members === undefined) throw new RemovalProbeError('removalprobe-not-control-plane', doing);
    if (isRunning) throw new RemovalProbeError('removalprobe-busy', doing);
    isRunning = true;
    try {
      const etcd = new Namespace(members.state, CLUSTER_PREFIX);
      const listMembers = async () => ({
        state: await members.state.members.list({ signal }),
        kubernetes: await members.kubernetes.members.list({ signal }),
      });
      const { results, away } = await runRemovalProbe({ ...ports, etcd, listMembers }, request, signal);
      const wire = results.map((result) => ({ ...result, outcome: OUTCOMES[result.outcome] }));
      return toBinary(ProbeReportSchema, create(ProbeReportSchema, { results: wire, away: [...away] }));
    } finally {
      isRunning = false;
    }
  };
}
