import { stringify } from 'yaml';
import { z } from 'zod';
import { DEFAULT_ATTESTATION } from './default-attestation.ts';
import { DEFAULTS } from './defaults.ts';
import { ConfigError } from './errors.ts';
import type { JoinConfig } from './join-schema.ts';
import { parseLocated } from './parse-located.ts';
import { isReservedLabel } from '../role/index.ts';
import { policySchema } from '../attestation/policy/index.ts';
import { clusterConfigSchema, type ClusterConfig } from './cluster-config-schema.ts';

/** The maximum size of `cluster.yaml`. */
export const MAX_CONFIG_BYTES = 1024 * 1024;

/**
 * The schema for new files of operators: refuses labels of Kubernetes. An older version accepted such labels, so a
 * stored configuration may have them. Refusing a stored configuration would end all joins until an owner signs another
 * one.
 */
const writableSchema = clusterConfigSchema.superRefine(({ join }, context) => {
  join.inventory.forEach(({ labels }, index) => {
    for (const key of Object.keys(labels).filter(isReservedLabel))
      context.addIssue({
        code: 'custom',
        path: ['join', 'inventory', index, 'labels', key],
        message: 'a label outside of kubernetes.io and k8s.io, because those labels belong to Kubernetes',
      });
  });
});

/**
 * Parses `cluster.yaml` as an operator has written it. `path` is for messages.
 * @throws ConfigError `config-invalid` with `details.problems`: every problem with line, column and the expected value
 */
export function parseWrittenConfig(text: string, path: string): ClusterConfig {
  return parseConfig(writableSchema, text, path);
}

/** Parses a configuration that a cluster has stored. @throws ConfigError `config-invalid` like `parseWrittenConfig` */
export function parseClusterConfig(text: string, path: string): ClusterConfig {
  return parseConfig(clusterConfigSchema, text, path);
}

function parseConfig(schema: z.ZodType<ClusterConfig>, text: string, path: string): ClusterConfig {
  const result = parseLocated(schema, text);
  if (result.kind === 'valid') return result.value;
  const lines = result.problems.map(({ line, column, message }) => `${path}:${line}:${column}: ${message}`);
  throw new ConfigError('config-invalid', `invalid configuration:\n${lines.join('\n')}`, {
    details: { path, problems: result.problems },
  });
}

/** JSON Schema (2020-12) of `cluster.yaml`, for editors. */
export function clusterConfigJsonSchema(): unknown {
  const schema = z.toJSONSchema(clusterConfigSchema, { io: 'input' }) as SchemaNode;
  // The configuration keeps the policy unparsed, so its own schema has no details. The schema of the policy
  // is inserted here.
  const policy = z.toJSONSchema(policySchema, { io: 'input' }) as SchemaNode;
  const attestation = schema.properties?.['attestation'];
  if (attestation?.properties !== undefined) {
    const { $schema: _, ...described } = policy;
    attestation.properties['policy'] = { ...attestation.properties['policy'], ...described };
  }
  return schema;
}

interface SchemaNode {
  properties?: Record<string, SchemaNode>;
  $schema?: string;
}

/** A new `cluster.yaml` with the most important settings. */
export function renderClusterConfig(options: {
  readonly name: string;
  readonly kubernetesVersion?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly fingerprint?: string | undefined;
  readonly networks?: { readonly podSubnet: string; readonly serviceSubnet: string } | undefined;
  readonly charts?: readonly Readonly<Record<string, unknown>>[] | undefined;
  readonly runsWorkloads?: boolean | undefined;
  readonly join?: JoinConfig | undefined;
  /** The section `attestation`; default: `DEFAULT_ATTESTATION`. */
  readonly attestation?: Readonly<Record<string, unknown>> | undefined;
}): string {
  const networks = options.networks ?? DEFAULTS;
  const firstNode = {
    ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
    ...(options.fingerprint === undefined ? {} : { fingerprint: options.fingerprint }),
    runsWorkloads: options.runsWorkloads ?? true,
  };
  const config = {
    version: 1,
    name: options.name,
    kubernetesVersion: options.kubernetesVersion ?? DEFAULTS.kubernetesVersion,
    networking: { podSubnet: networks.podSubnet, serviceSubnet: networks.serviceSubnet },
    apiServer: { extraSans: [] },
    firstNode,
    attestation: options.attestation ?? DEFAULT_ATTESTATION,
    charts: options.charts ?? [],
    join: options.join ?? { policy: DEFAULTS.joinPolicy },
  };
  const header =
    '# Configuration of one cluster. `cluster config schema` describes every key, `cluster config validate` checks this file.\n';
  return header + stringify(config, { lineWidth: 0 });
}
