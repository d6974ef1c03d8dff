import { isHost, parseEndpoint, PORTS } from '../endpoint/index.ts';
import { z } from 'zod';
import { KUBERNETES_VERSIONS } from '../bundle/index.ts';
import { attestationSchema } from './attestation-schema.ts';
import { DEFAULTS } from './defaults.ts';
import { apiEndpointSchema } from './api-endpoint.ts';
import { certificatesSchema } from './certificates-schema.ts';
import { joinSchema } from './join-schema.ts';
import { podSecuritySchema } from './pod-security-schema.ts';
import { isOverlapping, subnetFrom } from './subnet.ts';

const dnsLabel = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
    'lower-case letters, digits and dashes, at most 63, like “prod-1”',
  );

const subnet = z
  .string()
  .refine(isUsableSubnet, 'an IPv4 network between /8 and /24, like “10.244.0.0/16”, with no host bits set');

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
      .describe('Address of the Helm repository that has the chart.'),
    version: z
      .string()
      .regex(/^v?[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*$/, 'one exact version, like “1.2.3”')
      .optional()
      .describe('Exact version; needed with `repository` and `oci://`.'),
    plainHttp: z
      .boolean()
      .default(false)
      .describe(
        'Speak HTTP without TLS to the registry of an `oci://` chart. Only for a registry that nobody else can reach in between.',
      ),
    namespace: dnsLabel.default(DEFAULTS.chartNamespace).describe('Made when it is missing.'),
    values: z.record(z.string(), z.json()).default({}).describe('Values for the chart.'),
    needs: z.array(dnsLabel).default([]).describe('Names of charts that are installed before this one.'),
    wait: z.boolean().default(true).describe('Wait until what the chart makes is ready.'),
    timeoutSeconds: z.int().min(1).max(7200).default(DEFAULTS.chartTimeoutSeconds),
  })
  .superRefine(checkChartSource);

/** `cluster.yaml`. Strict: what is not known is refused, so that no setting is silently without effect. */
export const clusterConfigSchema = z
  .strictObject({
    version: z.literal(1, 'the version of this format, which is 1'),
    name: dnsLabel.describe('Name of the cluster.'),
    kubernetesVersion: z
      .enum(KUBERNETES_VERSIONS as [string, ...string[]])
      .default(DEFAULTS.kubernetesVersion)
      .describe('One of the versions that `cluster bundle build` knows.'),
    networking: z
      .strictObject({
        podSubnet: subnet.default(DEFAULTS.podSubnet).describe('Addresses of pods.'),
        serviceSubnet: subnet.default(DEFAULTS.serviceSubnet).describe('Addresses of services.'),
      })
      .prefault({})
      .superRefine(checkNetworks),
    apiServer: z
      .strictObject({
        extraSans: z
          .array(z.string().refine(isHost, 'a DNS name or an IP address'))
          .max(48)
          .default([])
          .describe('DNS names and addresses under which people reach the Kubernetes API.'),
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
          .describe('Where the first machine answers; `cluster init --node` says it too.'),
        fingerprint: z
          .string()
          .regex(
            /^sha256:[0-9a-f]{64}$/,
            '“sha256:” and 64 lower-case hex digits, as the machine shows it on its console',
          )
          .optional()
          .describe('SHA-256 of the machine’s public key, as it shows it on its console.'),
        name: dnsLabel.optional().describe('Name of the node; its hostname unless said.'),
        runsWorkloads: z.boolean().default(true).describe('Whether ordinary pods may run on the first node.'),
      })
      .prefault({}),
    charts: z
      .array(chart)
      .default([])
      .superRefine(checkChartNames)
      .describe('Helm charts to install after the network, in the order of `needs`.'),
    attestation: attestationSchema.describe('How machines prove what they are. There is no default.'),
    join: joinSchema.prefault({}),
    certificates: certificatesSchema.prefault({}),
    podSecurity: podSecuritySchema.prefault({}),
  })
  .describe('Configuration of one cluster');

export type ClusterConfig = z.output<typeof clusterConfigSchema>;
export type ChartConfig = ClusterConfig['charts'][number];

function isUsableSubnet(text: string): boolean {
  const range = subnetFrom(text);
  return range !== undefined && range.prefix >= 8 && range.prefix <= 24;
}

function checkNetworks(
  networks: { readonly podSubnet: string; readonly serviceSubnet: string },
  context: z.RefinementCtx,
): void {
  const [pods, services] = [subnetFrom(networks.podSubnet), subnetFrom(networks.serviceSubnet)];
  if (pods === undefined || services === undefined || !isOverlapping(pods, services)) return;
  const message = `a network that does not overlap podSubnet ${pods.text}`;
  context.addIssue({ code: 'custom', path: ['serviceSubnet'], message });
}

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
    context.addIssue({
      code: 'custom',
      path: ['plainHttp'],
      message: 'left out: it is for `oci://` charts; a `repository` says http:// in its address',
    });
  }
  if (one.repository !== undefined && one.chart.startsWith('oci://')) {
    context.addIssue({
      code: 'custom',
      path: ['repository'],
      message: 'left out: an `oci://` chart has its registry in its name',
    });
  }
  const remote = one.repository !== undefined || one.chart.startsWith('oci://');
  if (remote && one.version === undefined) {
    context.addIssue({
      code: 'custom',
      path: ['version'],
      message: 'one exact version, because the chart comes from elsewhere',
    });
  }
  if (
    one.repository !== undefined &&
    !one.chart.startsWith('oci://') &&
    !/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(one.chart)
  ) {
    context.addIssue({
      code: 'custom',
      path: ['chart'],
      message: 'the bare name of a chart in `repository`',
    });
  }
  if (!remote && one.version !== undefined) {
    context.addIssue({
      code: 'custom',
      path: ['version'],
      message: 'no version, because a local chart has its own',
    });
  }
}

function checkChartNames(
  charts: readonly { readonly name: string; readonly needs: readonly string[] }[],
  context: z.RefinementCtx,
): void {
  const names = charts.map(({ name }) => name);
  charts.forEach(({ name, needs }, index) => {
    if (names.indexOf(name) !== index) {
      context.addIssue({
        code: 'custom',
        path: [index, 'name'],
        message: `another name: there is already a chart ${name}`,
      });
    }
    needs.forEach((need, position) => {
      if (names.includes(need) && need !== name) return;
      const message = `the name of another chart of this file (${names.filter((each) => each !== name).join(', ') || 'there is none'})`;
      context.addIssue({ code: 'custom', path: [index, 'needs', position], message });
    });
  });
}
