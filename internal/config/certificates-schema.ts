import { z } from 'zod';
import { DEFAULTS } from './defaults.ts';

const MINUTES_PER_DAY = 24 * 60;
/** Shorter ones would be renewed more often than a slow TPM can quote. */
const SHORTEST_MINUTES = 2;

const minutes = z
  .int()
  .min(SHORTEST_MINUTES)
  .max(3650 * MINUTES_PER_DAY);

/** `certificates:` of `cluster.yaml`: how long what members prove themselves with is valid. Renewed at two thirds. */
export const certificatesSchema = z.strictObject({
  nodeMinutes: minutes
    .default(DEFAULTS.nodeCertificateMinutes)
    .describe(
      'A node’s own certificate; 7 days unless said. A node that is off for longer proves itself anew when it comes back.',
    ),
  kubeletMinutes: minutes
    .default(DEFAULTS.kubeletCertificateMinutes)
    .describe('The kubelet’s client and serving certificates; a year unless said.'),
  controlPlaneMinutes: minutes
    .default(DEFAULTS.controlPlaneCertificateMinutes)
    .describe(
      'The certificates of etcd, the API server and its clients; a year unless said. Set when the cluster is made. Kubernetes’ clients notice new ones within five minutes, so that less than 15 means connections that are refused once and opened again.',
    ),
  operatorMinutes: minutes
    .default(DEFAULTS.operatorCertificateMinutes)
    .describe(
      'What operators and owners show to curators, and owners to the API server; a year unless said. Renewed by `cluster` itself when it is used, also after it has run out.',
    ),
});

/** What nodes work with. */
export type CertificatesConfig = Omit<z.output<typeof certificatesSchema>, 'operatorMinutes'>;
