import { z } from 'zod';
import { KUBERNETES_VERSIONS } from '../bundle/index.ts';
import { DNS_LABEL, isHost, parseEndpoint, PORTS } from '../endpoint/index.ts';
import { attestationSchema } from './attestation-schema.ts';
import { extraArgumentsSchema } from './arguments/extra-arguments-schema.ts';
import { DEFAULTS } from './defaults.ts';
import { addProblem } from './errors.ts';
import { apiEndpointSchema, checkApiEndpoint } from './api-endpoint.ts';
import { certificatesSchema } from './certificates-schema.ts';
import { joinSchema } from './join-schema.ts';
import { checkNodePrefix, networkingSchema } from './networking-schema.ts';
import { hardeningSchema } from './hardening-schema.ts';
import { podSecuritySchema } from './pod-security-schema.ts';
import { authenticationSchema } from './runtime/authentication-schema.ts';
import { monitoringSchema } from './runtime/monitoring-schema.ts';
import { proxySchema } from './runtime/proxy-schema.ts';
import { registriesSchema } from './runtime/registries-schema.ts';

const dnsLabel = z
  .string()
  .regex(DNS_LABEL, 'lower-case letters, digits and dashes, at most 63, like “prod-1”');

const chart = z
  .strictObject({
    name: dnsLabel.describe('Name of the Helm release.'),
    chart: z
      .string()
      .min(1)
      .describe(
        'A directory or archive (relative to this file), `oci://…`, `bundle:NAME`, or with `repository` the name of a chart.',
      ),
    repository: z
      .string()
      .regex(/^https?:\/\/[^\s]+$/, 'the address of a Helm repository, like “https://charts.example.org”')
      .optional()
      .describe('URL of the Helm repository of the chart.'),
    version: z
      .string()
      .regex(/^v?[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*$/, 'one exact version, like “1.2.3”')
      .optional()
      .describe('Exact version; required with `repository` and `oci://`.'),
    plainHttp: z
      .boolean()
      .default(false)
      .describe(
        'Use HTTP without TLS for the registry of an `oci://` chart. Only for a registry on a trusted network.',
      ),
    namespace: dnsLabel
      .default(DEFAULTS.chartNamespace)
      .describe('Namespace of the release; created when it does not exist.'),
    values: z.record(z.string(), z.json()).default({}).describe('Values for the chart.'),
    needs: z.array(dnsLabel).default([]).describe('Names of the charts to install before this one.'),
    wait: z.boolean().default(true).describe('Wait until the resources of the chart are ready.'),
    timeoutSeconds: z.int().min(1).max(7200).default(DEFAULTS.chartTimeoutSeconds),
  })
  .superRefine(checkChartSource);

/** `cluster.yaml`. Unknown keys are refused, so that no setting is silently ignored. */
export const clusterConfigSchema = z
  .strictObject({
    version: z.literal(1, '1, the version of this format'),
    name: dnsLabel.describe('Name of the cluster.'),
    kubernetesVersion: z
      .enum(KUBERNETES_VERSIONS as [string, ...string[]])
      .default(DEFAULTS.kubernetesVersion)
      .describe('A version that `cluster bundle build` supports.'),
    networking: networkingSchema,
    apiServer: z
      .strictObject({
        extraSans: z
          .array(z.string().refine(isHost, 'a DNS name or an IP address'))
          .max(48)
          .default([])
          .describe('Additional DNS names and addresses of the Kubernetes API that its certificate names.'),
        endpoint: apiEndpointSchema.optional(),
      })
      .prefault({}),
    firstNode: z
      .strictObject({
        endpoint: z
          .string()
          .refine(
            (text) => parseEndpoint(text, PORTS.init) !== undefined,
            'an address, “192.0.2.11” or “node1.example.org:9000”',
          )
          .optional()
          .describe('Endpoint of the first machine; `cluster init --node` overrides it.'),
        fingerprint: z
          .string()
          .regex(
            /^sha256:[0-9a-f]{64}$/,
            '“sha256:” and 64 lower-case hex digits, as the machine shows it on its console',
          )
          .optional()
          .describe('SHA-256 of the public key of the machine, as on its console.'),
        name: dnsLabel.optional().describe('Name of the node; default: the hostname.'),
        runsWorkloads: z.boolean().default(true).describe('Whether ordinary pods may run on the first node.'),
      })
      .prefault({}),
    charts: z
      .array(chart)
      .default([])
      .superRefine(checkChartNames)
      .describe('Helm charts to install after the network, in the order of `needs`.'),
    attestation: attestationSchema.describe('How machines prove their identity and software. Required.'),
    join: joinSchema.prefault({}),
    certificates: certificatesSchema.prefault({}),
    podSecurity: podSecuritySchema.prefault({}),
    hardening: hardeningSchema.prefault({}),
    extraArguments: extraArgumentsSchema.prefault({}),
    proxy: proxySchema.prefault({}),
    registries: registriesSchema,
    authentication: authenticationSchema.prefault({}),
    monitoring: monitoringSchema.prefault({}),
  })
  .superRefine(checkNodePrefix)
  .superRefine(checkApiEndpoint)
  .describe('Configuration of one cluster');

/** A parsed `cluster.yaml` with all defaults. */
export type ClusterConfig = z.output<typeof clusterConfigSchema>;
/** One chart of `cluster.yaml`. */
export type ChartConfig = ClusterConfig['charts'][number];

function checkChartSource(
  one: {
    readonly chart: string;
    readonly repository?: string | undefined;
    readonly version?: string | undefined;
    readonly plainHttp: boolean;
  },
  context: z.RefinementCtx,
): void {
  if (one.plainHttp && !one.chart.startsWith('oci://')) {
    addProblem(
      context,
      ['plainHttp'],
      'left out: it is for `oci://` charts only; for a `repository`, use an http:// URL',
    );
  }
  if (one.repository !== undefined && one.chart.startsWith('oci://')) {
    addProblem(context, ['repository'], 'left out: the name of an `oci://` chart includes its registry');
  }
  const remote = one.repository !== undefined || one.chart.startsWith('oci://');
  if (remote && one.version === undefined) {
    addProblem(context, ['version'], 'one exact version, which is required for a remote chart');
  }
  if (
    one.repository !== undefined &&
    !one.chart.startsWith('oci://') &&
    !/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(one.chart)
  ) {
    addProblem(context, ['chart'], 'the name of a chart in `repository`');
  }
  if (!remote && one.version !== undefined) {
    addProblem(context, ['version'], 'left out: a local chart has its own version');
  }
}

function checkChartNames(
  charts: readonly { readonly name: string; readonly needs: readonly string[] }[],
  context: z.RefinementCtx,
): void {
  const names = charts.map(({ name }) => name);
  charts.forEach(({ name, needs }, index) => {
    if (names.indexOf(name) !== index) {
      addProblem(context, [index, 'name'], `unique: there is already a chart ${name}`);
    }
    needs.forEach((need, position) => {
      if (names.includes(need) && need !== name) return;
      const message = `the name of another chart of this file (${names.filter((each) => each !== name).join(', ') || 'the file has no other chart'})`;
      addProblem(context, [index, 'needs', position], message);
    });
  });
}
