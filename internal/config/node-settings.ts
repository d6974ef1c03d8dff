import { z } from 'zod';
import { apiEndpointSchema } from './api-endpoint.ts';
import { certificatesSchema, type CertificatesConfig } from './certificates-schema.ts';
import { podSecuritySchema, type PodSecurityConfig } from './pod-security-schema.ts';

/** What of the operators' document every node works with beside what an init names by itself. */
export interface NodeSettings {
  /** "host:port" of the operator's own balancer of the API servers; none: each node has its own. */
  readonly apiEndpoint?: string;
  readonly certificates: CertificatesConfig;
  /** An init of this version always says it: a cluster without it on record was made before. */
  readonly podSecurity: PodSecurityConfig;
}

/** Whatever else there is has been checked by who wrote it, and by who reads it. */
const schema = z.looseObject({
  apiServer: z.looseObject({ endpoint: apiEndpointSchema.optional() }).optional(),
  // What a later version has beside is none of ours: after the lock nothing of a document may stop an init.
  certificates: z.object(certificatesSchema.shape).prefault({}),
  podSecurity: z.object(podSecuritySchema.shape).prefault({}),
});

/** Of the document as an init carries it, JSON; "" has the defaults. @throws ZodError, SyntaxError */
export function nodeSettingsFrom(document: string): NodeSettings {
  const { apiServer, certificates, podSecurity } = parse(document);
  const endpoint = apiServer?.endpoint;
  return {
    ...{ certificates: ofNodes(certificates), podSecurity },
    ...(endpoint === undefined ? {} : { apiEndpoint: endpoint }),
  };
}

/** How long what an owner gets from an init is valid, of the same document. @throws ZodError, SyntaxError */
export function operatorMinutesFrom(document: string): number {
  return parse(document).certificates.operatorMinutes;
}

/** Lifetimes where nothing is said. */
export const DEFAULT_CERTIFICATES: CertificatesConfig = ofNodes(certificatesSchema.parse({}));

function parse(document: string): z.output<typeof schema> {
  return schema.parse(document === '' ? {} : JSON.parse(document));
}

function ofNodes({
  nodeMinutes,
  kubeletMinutes,
  controlPlaneMinutes,
}: CertificatesConfig): CertificatesConfig {
  return { nodeMinutes, kubeletMinutes, controlPlaneMinutes };
}
