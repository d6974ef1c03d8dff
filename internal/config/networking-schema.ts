import { z } from 'zod';
import type { ExtraArguments } from './arguments/extra-arguments-schema.ts';
import { DEFAULTS } from './defaults.ts';
import { addProblem } from './errors.ts';
import { isOverlapping, subnetsFrom, type Subnet } from './subnet.ts';
import type { IpFamily } from '../endpoint/index.ts';

/** The prefix length of the part of the pod network that each node gets, unless an extra argument changes it (kubeadm, validation.go). */
const NODE_PREFIX = { IPv4: 24, IPv6: 64 } as const;
/** kubeadm and the controller manager refuse a pod network that is larger than 2^16 nodes' parts (PodSubnetNodeMaskMaxDiff). */
const MAX_NODE_BITS = 16;

interface Limits {
  readonly shortest: number;
  readonly longest: number;
}

/** The lower limits of services are those of kubeadm and the API server (MaximumBitsForServiceSubnet: 20 bits). */
const LIMITS: Readonly<Record<'pods' | 'services', Readonly<Record<IpFamily, Limits>>>> = {
  pods: { IPv4: { shortest: 8, longest: 24 }, IPv6: { shortest: 16, longest: 112 } },
  services: { IPv4: { shortest: 12, longest: 24 }, IPv6: { shortest: 108, longest: 120 } },
};

/** IPv6 addresses that are routed: global and unique local ones (RFC 4291 section 2.4, RFC 4193). */
const ROUTED = ['2000::/3', 'fc00::/7'].flatMap((text) => subnetsFrom(text) ?? []);

const networks = (kind: 'pods' | 'services') =>
  z.string().superRefine((text, context) => {
    const problem = problemOf(text, kind);
    if (problem !== undefined) addProblem(context, [], problem);
  });

const SECOND =
  'One network, IPv4 or IPv6; a cluster with IPv4 and IPv6 (dual stack) has one of each family, separated by a comma. Nodes reach each other by the family of the first one.';

/** `networking:` of `cluster.yaml`. Immutable after the init. */
export const networkingSchema = z
  .strictObject({
    podSubnet: networks('pods').default(DEFAULTS.podSubnet).describe(`Addresses of pods. ${SECOND}`),
    serviceSubnet: networks('services')
      .default(DEFAULTS.serviceSubnet)
      .describe('Addresses of services: networks of the same families as `podSubnet`, in the same order.'),
    plugin: z
      .enum(['flannel', 'none'])
      .default('flannel')
      .describe(
        'Network of pods. “none”: install another pod network, for example as the first of `charts`.',
      ),
    backend: z
      .enum(['vxlan', 'wireguard'])
      .default('vxlan')
      .describe(
        'How flannel carries packets of pods between nodes. “wireguard” encrypts them, and needs a kernel with WireGuard on every node.',
      ),
  })
  .prefault({})
  .superRefine(checkNetworks)
  .superRefine(({ plugin, backend }, context) => {
    if (plugin === 'none' && backend !== 'vxlan')
      addProblem(context, ['backend'], 'left out: `plugin: none` installs no flannel, whose setting this is');
  });

interface Networks {
  readonly podSubnet: string;
  readonly serviceSubnet: string;
}

/** Why a text cannot be the networks of pods or of services: what it must be. */
function problemOf(text: string, kind: 'pods' | 'services'): string | undefined {
  const found = subnetsFrom(text);
  const examples =
    kind === 'pods' ? ['10.244.0.0/16', 'fd00:10:244::/56'] : ['10.96.0.0/12', 'fd00:10:96::/108'];
  if (found === undefined || found.some(({ hasHostBits }) => hasHostBits))
    return `one network, or one IPv4 and one IPv6 network, like “${examples.join(',')}”, with no host bits set and no spaces`;
  const [first, second] = found;
  if (second?.family === first.family)
    return `one network, or one network of each IP family; both of these are ${first.family}`;
  for (const { family, prefix } of found) {
    const { shortest, longest } = LIMITS[kind][family];
    if (prefix < shortest || prefix > longest)
      return `an ${family} network between /${shortest} and /${longest}, like “${examples[family === 'IPv4' ? 0 : 1] ?? ''}”`;
  }
  const unrouted = found.find(
    (each) => each.family === 'IPv6' && !ROUTED.some((range) => isInside(each, range)),
  );
  return unrouted && `an IPv6 network of unique local or global addresses, like “${examples[1] ?? ''}”`;
}

function isInside(inner: Subnet, outer: Subnet): boolean {
  return outer.first <= inner.first && inner.last <= outer.last;
}

function checkNetworks({ podSubnet, serviceSubnet }: Networks, context: z.RefinementCtx): void {
  const [pods, services] = [subnetsFrom(podSubnet), subnetsFrom(serviceSubnet)];
  if (pods === undefined || services === undefined) return;
  if (problemOf(podSubnet, 'pods') !== undefined || problemOf(serviceSubnet, 'services') !== undefined)
    return;
  const [podFamilies, serviceFamilies] = [namesOf(pods), namesOf(services)];
  if (pods.length < services.length)
    return addProblem(context, ['podSubnet'], `${serviceFamilies} networks, like those of serviceSubnet`);
  if (podFamilies !== serviceFamilies)
    return addProblem(context, ['serviceSubnet'], `${podFamilies} networks, like those of podSubnet`);
  for (const one of pods)
    for (const other of services)
      if (isOverlapping(one, other))
        addProblem(context, ['serviceSubnet'], `a network that does not overlap podSubnet ${one.text}`);
}

function namesOf(subnets: readonly Subnet[]): string {
  return subnets.map(({ family }) => family).join(' and then ');
}

/** Compares the parts of the pod networks that each node gets with the pod networks. */
export function checkNodePrefix(
  {
    networking,
    extraArguments,
  }: { readonly networking: Pick<Networks, 'podSubnet'>; readonly extraArguments: ExtraArguments },
  context: z.RefinementCtx,
): void {
  const isValid = problemOf(networking.podSubnet, 'pods') === undefined;
  const pods = (isValid ? subnetsFrom(networking.podSubnet) : undefined) ?? [];
  if (pods.length === 0) return;
  const own = extraArguments.controllerManager ?? {};
  const at = (name: string, message: string): void =>
    addProblem(context, ['extraArguments', 'controllerManager', name], message);
  const common = own['node-cidr-mask-size'];
  const isIpv4Only = pods.every(({ family }) => family === 'IPv4');
  if (common !== undefined && !isIpv4Only)
    at(
      'node-cidr-mask-size',
      'left out: a cluster with IPv6 has `node-cidr-mask-size-ipv6`, and with IPv4 too, `node-cidr-mask-size-ipv4`',
    );
  for (const family of ['IPv4', 'IPv6'] as const) {
    const name = `node-cidr-mask-size-${family === 'IPv4' ? 'ipv4' : 'ipv6'}` as const;
    const range = pods.find((each) => each.family === family);
    const length = own[name] ?? (isIpv4Only ? common : undefined);
    const key = own[name] === undefined ? 'node-cidr-mask-size' : name;
    if (own[name] !== undefined && (range === undefined || (common !== undefined && isIpv4Only))) {
      at(
        name,
        `left out: ${range === undefined ? `podSubnet has no ${family} network` : '`node-cidr-mask-size` is set too'}`,
      );
      continue;
    }
    if (range === undefined) continue;
    const { prefix } = range;
    if (length !== undefined && length <= prefix) at(key, `longer than the prefix of podSubnet, /${prefix}`);
    else if (length !== undefined && length - prefix > MAX_NODE_BITS)
      at(
        key,
        `at most ${prefix + MAX_NODE_BITS}: ${MAX_NODE_BITS} bits longer than the prefix of podSubnet, /${prefix}`,
      );
    else if (length === undefined && !isBetween(prefix, NODE_PREFIX[family])) {
      const message = `an ${family} network between /${NODE_PREFIX[family] - MAX_NODE_BITS} and /${NODE_PREFIX[family]}, unless extraArguments.controllerManager has \`${name}\``;
      addProblem(context, ['networking', 'podSubnet'], message);
    }
  }
}

function isBetween(prefix: number, nodePrefix: number): boolean {
  return prefix <= nodePrefix && nodePrefix - prefix <= MAX_NODE_BITS;
}
