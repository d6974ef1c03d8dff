import { isDeepStrictEqual } from 'node:util';
import { DEFAULTS } from './defaults.ts';
import { ConfigError } from './errors.ts';
import type { ClusterConfig } from './cluster-config-schema.ts';
import { parseClusterConfig } from './cluster-config.ts';
import { DEFAULT_HARDENING } from './hardening-schema.ts';
import { podSecuritySchema } from './pod-security-schema.ts';
import { differencesOf, type Json, type JsonPath } from './merge-three-way.ts';

/** The sections that may change after the init. */
const CHANGEABLE: readonly string[] = [
  ...['join', 'certificates', 'attestation'],
  ...['proxy', 'registries', 'authentication', 'monitoring'],
];
/** The immutable keys of these sections: each machine got their values when it joined. */
const FIXED: readonly string[] = ['attestation.lockPcr'];

/**
 * The part of `cluster.yaml` that the cluster itself stores (its configuration document). The endpoint of the
 * first node and the charts stay in the workspace. A key that was added after the first version is left out
 * when it has its default, because older agents refuse unknown keys, and because the request of an init must
 * not depend on the version of the CLI.
 */
export function clusterPartOf(config: ClusterConfig): Json {
  const {
    charts: _charts,
    firstNode,
    certificates,
    podSecurity,
    hardening,
    extraArguments,
    networking: { plugin, backend, ...networks },
    proxy,
    registries,
    authentication,
    monitoring,
    ...rest
  } = config;
  const { operatorMinutes, ...lifetimes } = certificates;
  const isDefault = operatorMinutes === DEFAULTS.operatorCertificateMinutes;
  const part = {
    ...rest,
    certificates: isDefault ? lifetimes : certificates,
    ...(isDeepStrictEqual(podSecurity, podSecuritySchema.parse({})) ? {} : { podSecurity }),
    ...(isDeepStrictEqual(hardening, DEFAULT_HARDENING) ? {} : { hardening }),
    networking: {
      ...networks,
      ...(plugin === 'flannel' ? {} : { plugin }),
      ...(backend === 'vxlan' ? {} : { backend }),
    },
    ...(Object.keys(extraArguments).length === 0 ? {} : { extraArguments }),
    ...(proxy.http === undefined && proxy.https === undefined ? {} : { proxy }),
    ...(registries.length === 0 ? {} : { registries }),
    ...(authentication.issuers.length === 0 ? {} : { authentication }),
    ...(monitoring.exporter ? { monitoring } : {}),
    firstNode: { name: firstNode.name, runsWorkloads: firstNode.runsWorkloads },
  };
  return JSON.parse(JSON.stringify(part)) as Json;
}

/**
 * Parses a configuration document (`clusterPartOf`) and fills in all defaults. @throws ConfigError
 * `config-invalid`
 */
export function parseClusterPart(text: string, path: string): Json {
  return clusterPartOf(parseClusterConfig(text, path));
}

/**
 * The settings of a cluster that another `cluster.yaml` changes ("joinPolicy", "attestation.policy"), without those of the machine
 * that is the first node.
 */
export function otherSettings(before: Json, after: Json): readonly string[] {
  return differencesOf(before, after)
    .filter(([section]) => section !== 'firstNode')
    .map((path) => path.join('.'));
}

/** The paths of immutable values that differ. */
export function immutableDifferences(before: Json, after: Json): readonly JsonPath[] {
  return differencesOf(before, after).filter((path) => !isChangeable(path));
}

/**
 * Checks a new configuration document: it must be valid and change mutable values only.
 * @throws ConfigError `config-invalid`, `config-immutable`
 * @returns the paths of the values that change
 */
export function verifyConfigurationChange(before: string, after: string): readonly JsonPath[] {
  const next = parseClusterPart(after, 'the new configuration');
  const now = readable(before);
  if (now === undefined) return [[]];
  const fixed = immutableDifferences(now, next);
  if (fixed.length > 0)
    throw new ConfigError(
      'config-immutable',
      `cannot change ${fixed.map((path) => path.join('.')).join(', ')}`,
      { details: { paths: fixed } },
    );
  return differencesOf(now, next);
}

/** Parses a document; undefined for an invalid one, because a valid document may replace an invalid one. */
function readable(text: string): Json | undefined {
  try {
    return parseClusterPart(text, 'the current configuration');
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
