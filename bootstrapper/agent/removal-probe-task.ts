import { create, toBinary } from '@bufbuild/protobuf';
import type { Clock } from '../../internal/clock/index.ts';
import {
  ProbeReportSchema,
  ProbeResult_Outcome as WireOutcome,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { Namespace } from '../../internal/etcd/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import type { TaskPorts } from '../nodestream/index.ts';
import { consensusLayout } from '../consensus/index.ts';
import type { EtcdMembers } from '../controlplane/index.ts';
import {
  RemovalProbeError,
  type RemovalProbeFiles,
  type RemovalProbeReport,
  runRemovalProbe,
} from '../removalprobe/index.ts';
import { CONTROL_PLANE_KEY_FILES, KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

/** What a removal probe needs from this agent. */
export interface RemovalProbeTaskPorts {
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
  /**
   * Clients of the local etcd members with root credentials; undefined unless this node is a serving member.
   */
  readonly etcd: () => EtcdMembers | undefined;
  readonly nodeName: string;
  readonly clusterId: string;
}

/** Runs one removal probe at a time for an operator; resolves with the bytes of a `ProbeReport`. */
export function createRemovalProbeTask(ports: RemovalProbeTaskPorts): TaskPorts['probe'] {
  let isRunning = false;
  return async (request, signal) => {
    const etcd = ports.etcd();
    const doing = `probing for removed node ${request.nodeId}`;
    if (etcd === undefined) throw new RemovalProbeError('removalprobe-not-control-plane', doing);
    if (isRunning) throw new RemovalProbeError('removalprobe-busy', doing);
    isRunning = true;
    try {
      const reads = {
        etcd: new Namespace(etcd.state, CLUSTER_PREFIX),
        listMembers: async (listing: AbortSignal) => ({
          state: await etcd.state.members.list({ signal: listing }),
          kubernetes: await etcd.kubernetes.members.list({ signal: listing }),
        }),
      };
      return encodeReport(
        await runRemovalProbe({ ...ports, ...reads }, controlPlaneFiles(), request, signal),
      );
    } finally {
      isRunning = false;
    }
  };
}

const OUTCOMES = {
  refused: WireOutcome.REFUSED,
  admitted: WireOutcome.LET_IN,
  inconclusive: WireOutcome.UNPROVED,
} as const;

function encodeReport({ results, away }: RemovalProbeReport): Uint8Array {
  const report = create(ProbeReportSchema, {
    away: [...away],
    results: results.map(({ endpoint, credential, outcome, detail }) => ({
      node: endpoint.node,
      endpoint: endpoint.kind,
      credential,
      outcome: OUTCOMES[outcome],
      detail,
    })),
  });
  return toBinary(ProbeReportSchema, report);
}

/** The keys that all control planes share, and a credential that each kind of endpoint accepts. */
function controlPlaneFiles(): RemovalProbeFiles {
  const kubernetes = consensusLayout(AGENT_PATHS.state, 'kubernetes');
  const state = consensusLayout(AGENT_PATHS.state, 'state');
  const apiServer = `${PATHS.pki}/apiserver-kubelet-client`;
  return {
    keyFiles: CONTROL_PLANE_KEY_FILES,
    rotation: AGENT_PATHS.rotation,
    valid: {
      'etcd-client': kubernetes.user('root'),
      'etcd-peer': kubernetes.peer,
      'state-etcd-client': state.user('root'),
      'state-etcd-peer': state.peer,
      'api-server': { certFile: KUBELET_FILES.clientCert, keyFile: KUBELET_FILES.clientKey },
      kubelet: { certFile: `${apiServer}.crt`, keyFile: `${apiServer}.key` },
      curator: { certFile: `${AGENT_PATHS.credentials}/node.crt`, keyFile: AGENT_PATHS.machineKey },
    },
  };
}
