import { z } from 'zod';
import { MINUTES_PER_DAY } from '../clock/index.ts';
import { DEFAULTS } from './defaults.ts';

/** The shortest allowed lifetime. A slow TPM cannot create quotes for more frequent renewals. */
const SHORTEST_MINUTES = 2;

const minutes = z
  .int()
  .min(SHORTEST_MINUTES)
  .max(3650 * MINUTES_PER_DAY);

/** `certificates:` of `cluster.yaml`: lifetimes. Certificates are renewed after two thirds of their lifetime. */
export const certificatesSchema = z.strictObject({
  nodeMinutes: minutes
    .default(DEFAULTS.nodeCertificateMinutes)
    .describe(
      'Lifetime of a node certificate; default: 7 days. A node that was down for longer must pass attestation again.',
    ),
  kubeletMinutes: minutes
    .default(DEFAULTS.kubeletCertificateMinutes)
    .describe(
      'Lifetime of the client certificate of the kubelet; default: one year. Its serving certificate is valid for at most 7 days.',
    ),
  controlPlaneMinutes: minutes
    .default(DEFAULTS.controlPlaneCertificateMinutes)
    .describe(
      'Lifetime of the certificates of etcd, the API server and its clients; default: one year. Set when the cluster is initialized. Clients reload certificates within five minutes. If the lifetime is less than 15 minutes, a client may be refused once with an expired certificate.',
    ),
  operatorMinutes: minutes
    .default(DEFAULTS.operatorCertificateMinutes)
    .describe(
      'Lifetime of the certificates of operators and owners; default: one year. `cluster` renews them when it is used, also after they have expired.',
    ),
});

/** The lifetimes that nodes need to know. */
export type CertificatesConfig = Omit<z.output<typeof certificatesSchema>, 'operatorMinutes'>;
