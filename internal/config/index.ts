/**
 * Domain layer: the files that people write: `cluster.yaml` in the operator's workspace and the provisioning file of a machine. Parsers refuse
 * unknown keys and name the position and the expected value of every problem. `defaults.ts` has all defaults.
 */
export { LOCAL_API_ENDPOINT } from './api-endpoint.ts';
export { attestationSettings, type AttestationSettings } from './attestation-settings.ts';
export type { CertificatesConfig } from './certificates-schema.ts';
export { extraArgumentsSchema, type ExtraArguments } from './arguments/extra-arguments-schema.ts';
export { DEFAULT_HARDENING, type HardeningConfig } from './hardening-schema.ts';
export type { PodSecurityConfig } from './pod-security-schema.ts';
export {
  RESERVED_PREFIXES,
  type AuthenticationConfig,
  type IssuerConfig,
} from './runtime/authentication-schema.ts';
export {
  parseRegistryLogins,
  REGISTRY_CREDENTIALS,
  renderRegistryLogins,
} from './runtime/registry-logins.ts';
export {
  serverOfMirror,
  serverOfRegistry,
  serversWithCredentials,
  type RegistriesConfig,
  type RegistryConfig,
} from './runtime/registries-schema.ts';
export {
  clusterConfigJsonSchema,
  MAX_CONFIG_BYTES,
  parseClusterConfig,
  parseWrittenConfig,
  renderClusterConfig,
} from './cluster-config.ts';
export {
  clusterPartOf,
  immutableDifferences,
  otherSettings,
  parseClusterPart,
  verifyConfigurationChange,
} from './cluster-part.ts';
export { attestationTemplate, SIMPLE_VARIANTS, type SimpleVariant } from './default-attestation.ts';
export { parseProgramConfig } from './parse-program-config.ts';
export {
  DEFAULTS,
  LOCAL_NETWORKS,
  NETWORK_CHART,
  NETWORK_NAMESPACE,
  type LocalFamilies,
} from './defaults.ts';
export {
  authenticationFrom,
  DEFAULT_CERTIFICATES,
  kubeletServingMinutes,
  monitoringFrom,
  clusterSettingsFrom,
  nodeSettingsFrom,
  operatorMinutesFrom,
  proxyEnvironmentFrom,
  registriesFrom,
} from './node-settings.ts';
export { ConfigError } from './errors.ts';
export { addressIn, familiesOf, subnetsFrom } from './subnet.ts';
export type { InventoryMachine, JoinConfig } from './join-schema.ts';
export { positionOf, type Problem } from './parse-located.ts';
export {
  differencesOf,
  mergeThreeWay,
  type Conflict,
  type Json,
  type JsonPath,
  type Merge,
} from './merge-three-way.ts';
export {
  MAX_PROVISIONING_BYTES,
  parseProvisioning,
  type PinnedCluster,
  PROVISIONING_PATH,
  provisioningJsonSchema,
  type CloudSetting,
  type ProvisionedDisk,
  type Provisioning,
} from './provisioning.ts';
export type { ChartConfig, ClusterConfig } from './cluster-config-schema.ts';
export { canonicalJson } from '../crypto/index.ts';
