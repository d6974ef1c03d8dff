import { type CertificatesConfig, DEFAULT_CERTIFICATES } from '../../internal/config/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
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

const MAX_PEM_BYTES = 64 * 1024;

export interface ControlPlaneRenewalPorts {
  readonly files: FilePort;
  readonly nowMs: () => number;
  readonly log: Logger;
  readonly values: Pick<RoleValues, 'clusterSettings' | 'localControlPlane'>;
  readonly driver: {
    renewConsensus(signal: AbortSignal): Promise<void>;
    renewCurator(signal: AbortSignal): Promise<void>;
  };
}

/** How long certificates live, as the cluster was made. */
export function certificateLifetimes({
  clusterSettings,
}: Pick<RoleValues, 'clusterSettings'>): CertificatesConfig {
  return currentValue(clusterSettings)?.certificates ?? DEFAULT_CERTIFICATES;
}

/**
 * What a control plane signs for itself: etcd's certificates, those of the API server and of its clients, and that of its
 * curator. Only
 * while its etcd serves: before that they are looked after by those who start it.
 */
export function controlPlaneRenewals(
  ports: ControlPlaneRenewalPorts,
): Readonly<Record<'etcd' | 'kubernetes' | 'curator', Renewal>> {
  const { files, nowMs, log, values, driver } = ports;
  const serves = (): boolean => {
    const now = values.localControlPlane.peek();
    return now.set && now.value !== undefined;
  };
  return {
    etcd: {
      name: 'etcd',
      certificateTimes: async () => (serves() ? etcdTimes(files) : []),
      prepare: here((signal) => driver.renewConsensus(signal)),
    },
    kubernetes: {
      name: 'Kubernetes control plane',
      certificateTimes: async () => (serves() ? controlPlaneCertificateTimes(files) : []),
      prepare: here(async () => {
        const renewed = await renewControlPlaneCertificates({ files, nowMs }, certificateLifetimes(values));
        log.info('certificates of the control plane were renewed', { renewed });
      }),
    },
    curator: {
      name: 'join service and curator',
      certificateTimes: async () => (serves() ? curatorCertificateTimes(files) : []),
      prepare: here((signal) => driver.renewCurator(signal)),
    },
  };
}

/** A kubelet shows its renewed serving certificate to the API server only after a restart. */
export function kubeletServingRenewal(ports: ServingCertificatePorts): Renewal {
  return {
    name: 'the certificate that the kubelet shows',
    certificateTimes: async (signal) => {
      const shown = await servedCertificateTimes(ports, signal);
      return shown === undefined ? [] : [shown];
    },
    prepare: here((signal) => restartForServingCertificate(ports, signal)),
  };
}

/** All that is needed is on this machine, and the membership stays as it is. */
function here(work: (signal: AbortSignal) => Promise<unknown>): Renewal['prepare'] {
  return () => Promise.resolve((signal) => work(signal).then(() => undefined));
}

async function etcdTimes(files: FilePort): Promise<readonly CertificateTimes[]> {
  const found = await Promise.all(
    etcdCertificates().map(async (path) => {
      const bytes = await files.read(path, MAX_PEM_BYTES);
      return bytes === undefined ? [] : [certificateTimesOf(Buffer.from(bytes).toString('utf8'))];
    }),
  );
  return found.flat();
}

function etcdCertificates(): readonly string[] {
  return Object.values(ETCD_INSTANCES).flatMap((etcd) =>
    certificateFiles(consensusLayout(AGENT_PATHS.state, etcd.name), etcd),
  );
}
