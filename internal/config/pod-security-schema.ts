import { z } from 'zod';

/** A namespace's name (RFC 1123 label). */
const namespace = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'the name of a namespace, like “monitoring”');

/** The levels of the Pod Security Standards (kubernetes.io/docs/concepts/security/pod-security-standards). */
const POD_SECURITY_LEVELS = ['privileged', 'baseline', 'restricted'] as const;

/** `podSecurity:` of `cluster.yaml`: what pods may ask of the machine that they run on. Set when the cluster is made. */
export const podSecuritySchema = z.strictObject({
  enforce: z
    .enum(POD_SECURITY_LEVELS)
    .default('baseline')
    .describe(
      'The Pod Security level that namespaces without a label of their own are held to: “baseline” (no host paths, host network or privileges) unless said. “restricted” is warned about and audited in any case. Set when the cluster is made.',
    ),
  exemptNamespaces: z
    .array(namespace)
    .max(64)
    .default([])
    .describe(
      'Namespaces that are held to nothing, beside kube-system and the one of the pod network: for storage drivers, node exporters and the like. Whoever may create pods in one of them is root on the nodes.',
    ),
  allowCloudMetadata: z
    .boolean()
    .default(false)
    .describe(
      'Whether pods may reach the cloud’s metadata service (169.254.169.254, fd00:ec2::254), which hands out the machine’s credentials. DNS at that address is left alone.',
    ),
});

/** As nodes work with it. Absent from the settings of a cluster: it was made before there was this. */
export type PodSecurityConfig = z.output<typeof podSecuritySchema>;
