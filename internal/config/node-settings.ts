import { z } from 'zod';
import { splitEndpoint } from '../endpoint/index.ts';
import { apiEndpointSchema } from './api-endpoint.ts';
import { certificatesSchema, type CertificatesConfig } from './certificates-schema.ts';
import { extraArgumentsSchema, type ExtraArguments } from './arguments/extra-arguments-schema.ts';
import { hardeningSchema, type HardeningConfig } from './hardening-schema.ts';
import { authenticationSchema, type AuthenticationConfig } from './runtime/authentication-schema.ts';
import { monitoringSchema, type MonitoringConfig } from './runtime/monitoring-schema.ts';
import { proxyEnvironment, proxySchema } from './runtime/proxy-schema.ts';
import { registriesSchema, type RegistriesConfig } from './runtime/registries-schema.ts';
import { podSecuritySchema, type PodSecurityConfig } from './pod-security-schema.ts';

/**
 * The settings of `cluster.yaml` that every node needs, in addition to those in the init request. Nodes read
 * them from the configuration document (`clusterPartOf`).
 */
interface NodeSettings {
  /**
   * "host:port" of the operator's own load balancer of the API servers; undefined: each node runs its own
   * balancer.
   */
  readonly apiEndpoint?: string;
  readonly certificates: CertificatesConfig;
  /** Always set by an init of this version; absent in the records of older clusters. */
  readonly podSecurity: PodSecurityConfig;
  /** Like `podSecurity`. */
  readonly hardening: HardeningConfig;
  /** Absent if there are no extra arguments, also in new clusters. */
  readonly extraArguments?: ExtraArguments;
  /** Absent: VXLAN. */
  readonly networkBackend?: 'wireguard';
}

/** Loose objects: the document has further keys. Other schemas validate those keys. */
const schema = z.looseObject({
  apiServer: z.looseObject({ endpoint: apiEndpointSchema.optional() }).optional(),
  // Unknown keys of later versions are ignored. After the node lock is set, an unknown key in the document
  // must not stop the init.
  certificates: z.object(certificatesSchema.shape).prefault({}),
  podSecurity: z.object(podSecuritySchema.shape).prefault({}),
  hardening: z.object(hardeningSchema.shape).prefault({}),
  // Strict, unlike the others: a node that ignored an argument would differ from the rest of the cluster.
  extraArguments: extraArgumentsSchema.prefault({}),
  networking: z.looseObject({ backend: z.enum(['vxlan', 'wireguard']).default('vxlan') }).prefault({}),
});

/** The members of an init request from which the settings of a cluster come. */
interface SettingsSource {
  readonly clusterName: string;
  readonly kubernetesVersion: string;
  readonly podSubnet: string;
  readonly serviceSubnet: string;
  readonly apiServerSans: readonly string[];
  /** The exact text of the manifest. */
  readonly bundleManifest: string;
  /** The configuration document. */
  readonly configuration: string;
}

/** The settings of a new cluster, without the version of the record. The first node stores them, and the owner signs them. */
export function clusterSettingsFrom(source: SettingsSource) {
  const { clusterName, kubernetesVersion, podSubnet, serviceSubnet, apiServerSans, bundleManifest } = source;
  return {
    ...{ clusterName, kubernetesVersion, podSubnet, serviceSubnet, apiServerSans, bundleManifest },
    ...nodeSettingsFrom(source.configuration),
  };
}

/** Parses the JSON document of an init request; "" means the defaults. @throws ZodError, SyntaxError */
export function nodeSettingsFrom(document: string): NodeSettings {
  const { apiServer, certificates, podSecurity, hardening, extraArguments, networking } = parse(document);
  const endpoint = apiServer?.endpoint;
  return {
    ...{ certificates: ofNodes(certificates), podSecurity, hardening },
    ...(endpoint === undefined ? {} : { apiEndpoint: endpoint }),
    ...(Object.keys(extraArguments).length === 0 ? {} : { extraArguments }),
    ...(networking.backend === 'vxlan' ? {} : { networkBackend: networking.backend }),
  };
}

/**
 * The lifetime, in minutes, of the owner's certificate that an init issues. `document`: see `nodeSettingsFrom()`.
 * @throws ZodError, SyntaxError
 */
export function operatorMinutesFrom(document: string): number {
  return parse(document).certificates.operatorMinutes;
}

const withAuthentication = z.looseObject({ authentication: authenticationSchema.prefault({}) });

/** The OpenID Connect issuers in a configuration document, for control planes. @throws ZodError, SyntaxError */
export function authenticationFrom(document: string): AuthenticationConfig {
  return withAuthentication.parse(JSON.parse(document)).authentication;
}

const withMonitoring = z.looseObject({ monitoring: monitoringSchema.prefault({}) });

/** Whether nodes serve metrics, from a configuration document. @throws ZodError, SyntaxError */
export function monitoringFrom(document: string): MonitoringConfig {
  return withMonitoring.parse(JSON.parse(document)).monitoring;
}

const withRegistries = z.looseObject({ registries: registriesSchema });

/**
 * The registries of a configuration document. Nodes read them again whenever the configuration changes. @throws ZodError,
 * SyntaxError
 */
export function registriesFrom(document: string): RegistriesConfig {
  return withRegistries.parse(JSON.parse(document)).registries;
}

const withProxy = z.looseObject({
  proxy: proxySchema.prefault({}),
  networking: z.looseObject({ podSubnet: z.string(), serviceSubnet: z.string() }),
  apiServer: z
    .looseObject({ endpoint: apiEndpointSchema.optional(), extraSans: z.array(z.string()).default([]) })
    .prefault({}),
});

/**
 * The environment variables of a proxy that a configuration document names, with the computed exceptions; empty without one.
 * @param apiServers further names and addresses of the API servers
 * @throws ZodError, SyntaxError
 */
export function proxyEnvironmentFrom(
  document: string,
  apiServers: readonly string[] = [],
): Readonly<Record<string, string>> {
  const { proxy, networking, apiServer } = withProxy.parse(JSON.parse(document));
  const balancer = apiServer.endpoint === undefined ? [] : [splitEndpoint(apiServer.endpoint).host];
  return proxyEnvironment({
    proxy,
    ...networking,
    apiServers: [...balancer, ...apiServer.extraSans, ...apiServers],
  });
}

/** The default lifetimes. */
export const DEFAULT_CERTIFICATES: CertificatesConfig = ofNodes(certificatesSchema.parse({}));

const MAX_SERVING_MINUTES = 7 * 24 * 60;

/**
 * The lifetime of the kubelet's serving certificate: at most 7 days. It names an address, and nobody can revoke it when another machine
 * gets that address.
 */
export function kubeletServingMinutes({
  kubeletMinutes,
}: Pick<CertificatesConfig, 'kubeletMinutes'>): number {
  return Math.min(kubeletMinutes, MAX_SERVING_MINUTES);
}

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
