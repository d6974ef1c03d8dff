import { isIP } from 'node:net';
import { familyOf } from '../endpoint/index.ts';
import { failed, type Observation } from './check.ts';
import type { PreflightErrorCode } from './errors.ts';
import type { MachineFacts } from './machine-facts.ts';

type Observe = (facts: MachineFacts) => readonly Observation[];

/** internal/platform leaves out link-local addresses when it collects the facts. */
const NO_ADDRESS = 'the machine has only loopback and link-local addresses (169.254.0.0/16, fe80::/10)';
/** glibc and the kubelet ignore further name servers (resolv.conf(5), MAXNS). */
const MAX_NAMESERVERS = 3;

const address: Observe = ({ addresses, configuredAddress }) => {
  const threshold = configuredAddress ?? 'one that is not loopback or link-local';
  const figure = addresses.join(', ') || 'none';
  const seen = { subject: 'address', figure, threshold };
  if (addresses.length === 0) return [{ ...seen, problem: failed(NO_ADDRESS) }];
  if (configuredAddress === undefined || addresses.includes(configuredAddress)) return [seen];
  const cause = `the configured address is ${configuredAddress}, but the machine has ${figure}`;
  return [{ ...seen, problem: failed(cause) }];
};

/** The machine has an address of each family, and the address at which others reach it is of the first one. */
export const families = ({
  families: wanted,
  addresses,
  configuredAddress,
}: Pick<MachineFacts, 'families' | 'addresses' | 'configuredAddress'>): readonly Observation[] => {
  const [primary] = wanted;
  // A machine without any address is another problem, which comes before this one.
  if (primary === undefined || addresses.length === 0) return [];
  const found = wanted.filter((family) => addresses.some((each) => familyOf(each) === family));
  const missing = wanted.filter((family) => !found.includes(family));
  const networks = `the cluster has ${wanted.join(' and ')} networks`;
  const isOfOther = configuredAddress !== undefined && familyOf(configuredAddress) !== primary;
  const cause =
    missing.length > 0
      ? `${networks}, but the machine has no ${missing.join(' and ')} address`
      : `${networks}, but the address of the machine is ${configuredAddress ?? ''}, not of the first family`;
  return [
    {
      subject: 'IP families',
      figure: found.join(', ') || 'none',
      threshold: wanted.join(', '),
      problem: failed(missing.length > 0 || isOfOther ? cause : undefined),
    },
  ];
};

const hostname: Observe = (facts) => {
  const cause = problemOfName(facts);
  return [
    {
      subject: `hostname ${facts.nodeName}`,
      figure: facts.nameResolvesTo.join(', ') || 'does not resolve',
      threshold: 'resolves to this machine only',
      problem: failed(cause),
    },
  ];
};

function problemOfName({
  nodeName,
  nameResolvesTo,
  addresses,
  configuredAddress,
}: MachineFacts): string | undefined {
  if (nodeName === 'localhost' || nodeName.startsWith('localhost.'))
    return `the name of the machine is ${nodeName}, which is not unique`;
  const others = nameResolvesTo.filter(
    (each) =>
      !addresses.includes(each) &&
      each !== configuredAddress && // another check tests whether the machine has this address
      !isLoopback(each),
  );
  if (others.length === 0 || addresses.length === 0) return undefined;
  return `${nodeName} resolves to ${others.join(', ')}, but this machine has ${addresses.join(', ')}`;
}

/** The name servers that pods get. They are not asked. */
export const dns = ({ resolvConf }: Pick<MachineFacts, 'resolvConf'>): readonly Observation[] => {
  const servers = nameservers(resolvConf);
  const seen = {
    subject: 'name servers',
    figure: servers.join(', ') || 'none',
    threshold: `1 to ${MAX_NAMESERVERS} configured, none on the loopback`,
  };
  const cause = problemOfServers(servers);
  return [cause === undefined ? seen : { ...seen, problem: { status: 'warning', cause } }];
};

function problemOfServers(servers: readonly string[]): string | undefined {
  if (servers.length === 0) return 'no name server is configured: pods resolve only names of the cluster';
  const loopback = servers.filter(isLoopback);
  if (loopback.length > 0)
    return `name server ${loopback.join(', ')} is a loopback address: in the pod of CoreDNS it would be CoreDNS itself`;
  if (servers.length > MAX_NAMESERVERS)
    return `${servers.length} name servers are configured, but only the first ${MAX_NAMESERVERS} are used`;
  return undefined;
}

/** The checks of address, host name and name servers. */
export const NAME_CHECKS: readonly (readonly [PreflightErrorCode, Observe])[] = [
  ['preflight-address', address],
  ['preflight-address-family', families],
  ['preflight-hostname', hostname],
  ['preflight-dns', dns],
];

function nameservers(resolvConf: string): readonly string[] {
  return [...resolvConf.matchAll(/^\s*nameserver\s+(\S+)/gm)]
    .map(([, server = '']) => server)
    .filter((server) => isIP(server.split('%')[0] ?? '') !== 0);
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}
