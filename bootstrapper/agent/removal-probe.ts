import { create, toBinary } from '@bufbuild/protobuf';
import {
  ProbeReportSchema,
  Trial_Outcome as WireOutcome,
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

export interface RemovalProbePorts {
  readonly files: FilePort;
  readonly nowMs: () => number;
  readonly log: Logger;
  /** The local members as their root, while this node is a member that serves. */
  readonly etcd: () => EtcdMembers | undefined;
  readonly nodeName: string;
  readonly clusterId: string;
}

/** Tries papers for an operator, one round at a time; the answer as bytes of a `ProbeReport`. */
export function removalProbe(ports: RemovalProbePorts): TaskPorts['probe'] {
  let isTrying = false;
  return async (wish, signal) => {
    const etcd = ports.etcd();
    if (etcd === undefined)
      throw new RemovalProbeError('removalprobe-not-control-plane', `trying papers of ${wish.nodeId}`);
    if (isTrying) throw new RemovalProbeError('removalprobe-busy', `trying papers of ${wish.nodeId}`);
    isTrying = true;
    try {
      const reads = {
        etcd: new Namespace(etcd.state, CLUSTER_PREFIX),
        listMembers: async (listing: AbortSignal) => ({
          state: await etcd.state.members.list({ signal: listing }),
          kubernetes: await etcd.kubernetes.members.list({ signal: listing }),
        }),
      };
      return reportOf(await runRemovalProbe({ ...ports, ...reads }, filesOf(ports.nodeName), wish, signal));
    } finally {
      isTrying = false;
    }
  };
}

const OUTCOMES = {
  refused: WireOutcome.REFUSED,
  'let-in': WireOutcome.LET_IN,
  unproved: WireOutcome.UNPROVED,
} as const;

function reportOf({ results: trials, away }: RemovalProbeReport): Uint8Array {
  const report = create(ProbeReportSchema, {
    away: [...away],
    trials: trials.map(({ endpoint: door, credential: paper, outcome, detail: said }) => ({
      node: door.node,
      door: door.kind,
      paper,
      outcome: OUTCOMES[outcome],
      said,
    })),
  });
  return toBinary(ProbeReportSchema, report);
}

/** Where a control plane has the keys that all of them share, and what each of its doors knows. */
function filesOf(nodeName: string): RemovalProbeFiles {
  const authority = (
    name: `${'cluster' | 'etcd-clients' | 'etcd-peers' | 'state-clients' | 'state-peers' | 'kubernetes' | 'front-proxy'}-ca`,
  ) => ({
    certFile: CONTROL_PLANE_KEY_FILES[`${name}.crt`],
    keyFile: CONTROL_PLANE_KEY_FILES[`${name}.key`],
  });
  const kubernetes = consensusLayout(AGENT_PATHS.state, 'kubernetes');
  const state = consensusLayout(AGENT_PATHS.state, 'state');
  const { clientCert, clientKey } = KUBELET_FILES;
  const toKubelets = `${PATHS.pki}/apiserver-kubelet-client`;
  const node = { certFile: `${AGENT_PATHS.credentials}/node.crt`, keyFile: AGENT_PATHS.machineKey };
  return {
    authorities: {
      'cluster-ca': authority('cluster-ca'),
      'etcd-clients-ca': authority('etcd-clients-ca'),
      'etcd-peers-ca': authority('etcd-peers-ca'),
      'state-clients-ca': authority('state-clients-ca'),
      'state-peers-ca': authority('state-peers-ca'),
      'kubernetes-ca': authority('kubernetes-ca'),
      // One and the same before the first rotation, and afterwards in its file.
      'kubernetes-clients-ca': authority('kubernetes-ca'),
      'front-proxy-ca': authority('front-proxy-ca'),
    },
    serviceAccountKey: CONTROL_PLANE_KEY_FILES['service-account.key'],
    rotation: AGENT_PATHS.rotation,
    genuine: {
      'etcd-client': { ...kubernetes.user('root'), path: '/version' },
      'etcd-peer': { ...kubernetes.peer, path: '/version' },
      'state-etcd-client': { ...state.user('root'), path: '/version' },
      'state-etcd-peer': { ...state.peer, path: '/version' },
      'api-server': { certFile: clientCert, keyFile: clientKey, path: `/api/v1/nodes/${nodeName}` },
      kubelet: { certFile: `${toKubelets}.crt`, keyFile: `${toKubelets}.key`, path: '/pods' },
      curator: { ...node, path: '/' },
    },
  };
}
