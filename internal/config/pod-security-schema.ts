import { z } from 'zod';
import { DNS_LABEL } from '../endpoint/index.ts';

/** The name of a namespace (RFC 1123 label). */
const namespace = z.string().regex(DNS_LABEL, 'the name of a namespace, like “monitoring”');

/** The levels of the Pod Security Standards (kubernetes.io/docs/concepts/security/pod-security-standards). */
const POD_SECURITY_LEVELS = ['privileged', 'baseline', 'restricted'] as const;

/** `podSecurity:` of `cluster.yaml`: the rights of pods on their nodes. Immutable after the init. */
export const podSecuritySchema = z.strictObject({
  enforce: z
    .enum(POD_SECURITY_LEVELS)
    .default('baseline')
    .describe(
      'The Pod Security level that is enforced in namespaces without their own label; default: “baseline” (no host paths, host network or privileges). Violations of “restricted” are warned about and audited in any case. Set when the cluster is initialized.',
    ),
  exemptNamespaces: z
    .array(namespace)
    .max(64)
    .default([])
    .describe(
      'Namespaces without enforcement, in addition to kube-system and the namespace of the pod network: for storage drivers, node exporters and the like. Users who may create pods in such a namespace are root on the nodes.',
    ),
  allowCloudMetadata: z
    .boolean()
    .default(false)
    .describe(
      'Whether pods may reach the metadata service of the cloud (169.254.169.254, fd00:ec2::254) and the wire server of Azure (168.63.129.16, ports 80 and 32526), which have credentials of the machine. DNS at these addresses is always allowed.',
    ),
});

/** The parsed section. Older clusters do not have it in their settings. */
export type PodSecurityConfig = z.output<typeof podSecuritySchema>;
