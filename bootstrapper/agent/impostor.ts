import { create, toBinary } from '@bufbuild/protobuf';
import {
  ProbeReportSchema,
  Trial_Outcome as WireOutcome,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { Namespace } from '../../internal/etcd/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import type { TaskPorts } from '../attend/index.ts';
import { consensusLayout } from '../consensus/index.ts';
import type { EtcdMembers } from './controlplane-driver.ts';
import { ImpostorError, tryPapers, type ImpostorFiles, type Trials } from '../impostor/index.ts';
import { CONTROL_PLANE_KEY_FILES, KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import { PLACES } from './places.ts';

export interface ImpostorDeskPorts {
  readonly files: FilePort;
  readonly nowMs: () => number;
  readonly log: Logger;
  /** The local members as their root, while this node is a member that serves. */
  readonly etcd: () => EtcdMembers | undefined;
  readonly nodeName: string;
  readonly clusterId: string;
}

/** Tries papers for an operator, one round at a time; the answer as bytes of a `ProbeReport`. */
export function impostorDesk(ports: ImpostorDeskPorts): TaskPorts['probe'] {
  let isTrying = false;
  return async (wish, signal) => {
    const etcd = ports.etcd();
    if (etcd === undefined) throw new ImpostorError('impostor-not-here', `trying papers of ${wish.nodeId}`);
    if (isTrying) throw new ImpostorError('impostor-busy', `trying papers of ${wish.nodeId}`);
    isTrying = true;
    try {
      const reads = {
        etcd: new Namespace(etcd.state, CLUSTER_PREFIX),
        listMembers: async (listing: AbortSignal) => ({
          state: await etcd.state.members.list({ signal: listing }),
          kubernetes: await etcd.kubernetes.members.list({ signal: listing }),
        }),
      };
      return reportOf(await tryPapers({ ...ports, ...reads }, filesOf(ports.nodeName), wish, signal));
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

function reportOf({ trials, away }: Trials): Uint8Array {
  const report = create(ProbeReportSchema, {
    away: [...away],
    trials: trials.map(({ door, paper, outcome, said }) => ({
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
function filesOf(nodeName: string): ImpostorFiles {
  const authority = (
    name: `${'cluster' | 'etcd-clients' | 'etcd-peers' | 'state-clients' | 'state-peers' | 'kubernetes' | 'front-proxy'}-ca`,
  ) => ({
    certFile: CONTROL_PLANE_KEY_FILES[`${name}.crt`],
    keyFile: CONTROL_PLANE_KEY_FILES[`${name}.key`],
  });
  const kubernetes = consensusLayout(PLACES.state, 'kubernetes');
  const state = consensusLayout(PLACES.state, 'state');
  const { clientCert, clientKey } = KUBELET_FILES;
  const toKubelets = `${PATHS.pki}/apiserver-kubelet-client`;
  const node = { certFile: `${PLACES.credentials}/node.crt`, keyFile: PLACES.machineKey };
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
    rotation: PLACES.rotation,
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
