import { isDeepStrictEqual } from 'node:util';
import { DEFAULTS } from './defaults.ts';
import { ConfigError } from './errors.ts';
import type { ClusterConfig } from './cluster-config-schema.ts';
import { parseClusterConfig } from './cluster-config.ts';
import { podSecuritySchema } from './pod-security-schema.ts';
import { differencesOf, type Json, type JsonPath } from './merge-three-way.ts';

/** What may change while the cluster lives; all else decided what was made at the init. */
const CHANGEABLE: readonly string[] = ['join', 'certificates', 'attestation'];
/** Inside of those: every machine was given its own when it became a member. */
const FIXED: readonly string[] = ['attestation.lockPcr'];

/**
 * The part of a configuration that the cluster itself keeps: where the first node is reached and which charts the CLI
 * installs afterwards are the workspace's own. What came to the first version and is at its default is left out: an agent of
 * before refuses what it does not know, and what is asked of an init must not change with the program that asks.
 */
export function clusterPartOf(config: ClusterConfig): Json {
  const { charts: _charts, firstNode, certificates, podSecurity, ...rest } = config;
  const { operatorMinutes, ...lifetimes } = certificates;
  const isDefault = operatorMinutes === DEFAULTS.operatorCertificateMinutes;
  const part = {
    ...rest,
    certificates: isDefault ? lifetimes : certificates,
    ...(isDeepStrictEqual(podSecurity, podSecuritySchema.parse({})) ? {} : { podSecurity }),
    firstNode: { name: firstNode.name, runsWorkloads: firstNode.runsWorkloads },
  };
  return JSON.parse(JSON.stringify(part)) as Json;
}

/** A document of the cluster → the same part, with all defaults. @throws ConfigError `config-invalid` */
export function parseClusterPart(text: string, path: string): Json {
  return clusterPartOf(parseClusterConfig(text, path));
}

/** Places that differ and may not. */
export function immutableDifferences(before: Json, after: Json): readonly JsonPath[] {
  return differencesOf(before, after).filter((path) => !isChangeable(path));
}

/**
 * Judges a new document of the cluster: it can be read as a whole, and changes only what may change.
 * @throws ConfigError `config-invalid`, `config-immutable`
 * @returns the places that change
 */
export function verifyConfigurationChange(before: string, after: string): readonly JsonPath[] {
  const next = parseClusterPart(after, 'the new configuration');
  const now = readable(before);
  if (now === undefined) return [[]];
  const fixed = immutableDifferences(now, next);
  if (fixed.length > 0)
    throw new ConfigError(
      'config-immutable',
      `changing the configuration: ${fixed.map((path) => path.join('.')).join(', ')}`,
      { details: { paths: fixed } },
    );
  return differencesOf(now, next);
}

/** A document that nobody can read holds nobody back from putting a good one in its place. */
function readable(text: string): Json | undefined {
  try {
    return parseClusterPart(text, 'the configuration in force');
  } catch (error) {
    if (error instanceof ConfigError) return undefined;
    throw error;
  }
}

function isChangeable(path: JsonPath): boolean {
  const text = path.join('.');
  const isFixed = FIXED.some((each) => text === each || text.startsWith(`${each}.`));
  return !isFixed && CHANGEABLE.includes(path[0] ?? '');
}
