import { type CertificatesConfig, DEFAULT_CERTIFICATES } from '../../internal/config/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { type CertificateTimes, certificateTimesOf } from '../../internal/pki/index.ts';
import { certificateFiles, consensusLayout, ETCD_INSTANCES } from '../consensus/index.ts';
import {
  controlPlaneCertificateTimes,
  renewControlPlaneCertificates,
  restartForServingCertificate,
  servedCertificateTimes,
  type ServingCertificatePorts,
} from '../kubernetes/index.ts';
import type { Renewal } from './renewal-worker.ts';
import type { RoleValues } from '../roleserve/index.ts';
import { curatorCertificateTimes } from '../credentials/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

/** Ports (injected dependencies) and inputs of the renewal of a control plane's certificates. */
export interface ControlPlaneRenewalPorts extends Pick<SystemPorts, 'files' | 'clock' | 'log'> {
  readonly reads: Pick<RoleValues, 'clusterSettings' | 'localControlPlane'>;
  readonly driver: {
    renewConsensus(signal: AbortSignal): Promise<void>;
    renewCurator(signal: AbortSignal): Promise<void>;
  };
}

/** Lifetimes of certificates from the settings of the cluster. */
export function certificateLifetimes({
  clusterSettings,
}: Pick<RoleValues, 'clusterSettings'>): CertificatesConfig {
  return currentValue(clusterSettings)?.certificates ?? DEFAULT_CERTIFICATES;
}

/**
 * Renewals of the certificates that a control plane signs itself: of etcd, of the API server and its clients,
 * and of the curator. They are active only while etcd runs, because the start of the control plane renews
 * these certificates first.
 */
export function controlPlaneRenewals(
  ports: ControlPlaneRenewalPorts,
): Readonly<Record<'etcd' | 'kubernetes' | 'curator', Renewal>> {
  const { files, clock, log, reads, driver } = ports;
  const serves = (): boolean => {
    const now = reads.localControlPlane.peek();
    return now.set && now.value !== undefined;
  };
  return {
    etcd: {
      name: 'etcd',
      certificateTimes: async () => (serves() ? etcdTimes(files) : []),
      prepare: local((signal) => driver.renewConsensus(signal)),
    },
    kubernetes: {
      name: 'Kubernetes control plane',
      certificateTimes: async () => (serves() ? controlPlaneCertificateTimes(files) : []),
      prepare: local(async () => {
        const renewed = await renewControlPlaneCertificates({ files, clock }, certificateLifetimes(reads));
        log.info('control plane certificates renewed', { renewed });
      }),
    },
    curator: {
      name: 'join service and curator',
      certificateTimes: async () => (serves() ? curatorCertificateTimes(files) : []),
      prepare: local((signal) => driver.renewCurator(signal)),
    },
  };
}

/** Restarts the kubelet when it still serves an old certificate. */
export function kubeletServingRenewal(ports: ServingCertificatePorts): Renewal {
  return {
    name: 'kubelet serving certificate',
    certificateTimes: async (signal) => {
      const shown = await servedCertificateTimes(ports, signal);
      return shown === undefined ? [] : [shown];
    },
    prepare: local((signal) => restartForServingCertificate(ports, signal)),
  };
}

/** A renewal on this node only: it needs no other node and does not change the membership. */
function local(work: (signal: AbortSignal) => Promise<unknown>): Renewal['prepare'] {
  return () => Promise.resolve(async (signal) => void (await work(signal)));
}

async function etcdTimes(files: FilePort): Promise<readonly CertificateTimes[]> {
  const paths = Object.values(ETCD_INSTANCES).flatMap((etcd) =>
    certificateFiles(consensusLayout(AGENT_PATHS.state, etcd.name), etcd),
  );
  const found = await Promise.all(paths.map((path) => readText(files, path)));
  return found.filter((pem) => pem !== undefined).map(certificateTimesOf);
}
