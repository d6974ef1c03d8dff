import { create, toBinary } from '@bufbuild/protobuf';
import { Namespace } from '../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import {
  ProbeReportSchema,
  ProbeResult_Outcome as Outcome,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { consensusLayout } from '../consensus/index.ts';
import { CONTROL_PLANE_KEY_FILES, KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import type { TaskPorts } from '../nodestream/index.ts';
import { RemovalProbeError, type RemovalProbeFiles, runRemovalProbe } from '../removalprobe/index.ts';
import type { Agent } from './agent-parts.ts';

const OUTCOMES = {
  refused: Outcome.REFUSED,
  admitted: Outcome.LET_IN,
  inconclusive: Outcome.UNPROVED,
} as const;

/** Runs one removal probe at a time for an operator; resolves with the bytes of a `ProbeReport`. */
export function createRemovalProbeTask(
  agent: Agent,
  { nodeName, clusterId }: Membership,
): TaskPorts['probe'] {
  const log = agent.log.child('removal-probe');
  let isRunning = false;
  return async (request, signal) => {
    const members = agent.driver.etcdMembers();
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
      const probePorts = { ...agent, nodeName, clusterId, log, etcd, listMembers };
      const { results, away } = await runRemovalProbe(probePorts, controlPlaneFiles(), request, signal);
      const wire = results.map((result) => ({ ...result, outcome: OUTCOMES[result.outcome] }));
      return toBinary(ProbeReportSchema, create(ProbeReportSchema, { results: wire, away: [...away] }));
    } finally {
      isRunning = false;
    }
  };
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
