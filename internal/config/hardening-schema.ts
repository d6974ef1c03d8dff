import { z } from 'zod';

/**
 * `hardening:` of `cluster.yaml`: restrictions that Kubernetes does not have by default. Each key relaxes one
 * restriction. Immutable after the init.
 */
export const hardeningSchema = z.strictObject({
  seccompDefault: z
    .boolean()
    .default(true)
    .describe(
      'Whether containers without a seccomp profile of their own run with the profile of the container runtime. false: without a profile.',
    ),
  podPidsLimit: z
    .int()
    .min(-1)
    .refine((limit) => limit !== 0, 'a number of processes, or -1')
    .default(4096)
    .describe('Number of processes and threads that one pod may have; -1: as many as the node.'),
  anonymousRequests: z
    .enum(['health', 'all'])
    .default('health')
    .describe(
      'Paths of the API server that accept requests without credentials. “health”: only /healthz, /livez and /readyz. “all”: permissions of the user system:anonymous decide.',
    ),
  eventRateLimit: z
    .boolean()
    .default(true)
    .describe('Whether the API server limits how many events one namespace and one user may create.'),
  serviceExternalIps: z
    .boolean()
    .default(false)
    .describe(
      'Whether Services may have `externalIPs`. Anyone who may create such a Service can take over connections of other pods to these addresses (CVE-2020-8554).',
    ),
  extendedTokens: z
    .boolean()
    .default(false)
    .describe(
      'Whether the token that a pod gets is valid for a year, for programs that do not read it again. false: for an hour.',
    ),
  strongCiphers: z
    .boolean()
    .default(true)
    .describe(
      'Whether Kubernetes accepts only cipher suites with forward secrecy and authenticated encryption below TLS 1.3.',
    ),
});

/** The parsed section. Older clusters do not have it in their settings. */
export type HardeningConfig = z.output<typeof hardeningSchema>;
/** The defaults of a new cluster. */
export const DEFAULT_HARDENING: HardeningConfig = hardeningSchema.parse({});
