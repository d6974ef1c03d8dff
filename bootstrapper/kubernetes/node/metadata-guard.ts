import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { SERVICE_SANDBOX, type SystemPorts } from '../../../internal/platform/index.ts';
import { ensureUnit } from '../../units/index.ts';

/** Unit that loads the rules which block pods from the metadata service of the cloud. */
export const METADATA_GUARD_UNIT = 'cluster-metadata-guard.service';
/** File with the nftables rules. */
export const METADATA_GUARD_RULES = '/var/lib/cluster/kubernetes/metadata-guard.nft';
const TABLE = 'inet cluster_metadata';

/**
 * nftables rules that block pods from the metadata service of the cloud, which returns the machine's
 * credentials to every client, and from the wire server of Azure (168.63.129.16), which returns those of
 * the machine's extensions. Azure's DNS and health probes have that address too, with other ports. The rules reject packets that arrive on any interface except the loopback,
 * both forwarded packets and packets to a metadata agent on this machine. The machine itself may connect. DNS
 * is allowed, because some clouds serve DNS at the same address. Loading the rules replaces the whole table,
 * so they can be loaded repeatedly.
 */
function buildMetadataRules(): string {
  const chain = (hook: 'forward' | 'input'): string => `  chain ${hook} {
    type filter hook ${hook} priority -10; policy accept;
    iif "lo" accept
    ip daddr 169.254.169.254 udp dport 53 accept
    ip daddr 169.254.169.254 tcp dport 53 accept
    ip daddr 169.254.169.254 reject with icmp type admin-prohibited
    ip daddr 168.63.129.16 tcp dport { 80, 32526 } reject with icmp type admin-prohibited
    ip6 daddr fd00:ec2::254 reject with icmpv6 type admin-prohibited
  }
`;
  return `table ${TABLE} {}
delete table ${TABLE}
table ${TABLE} {
${chain('forward')}${chain('input')}}
`;
}

/** Builds the unit. It starts before the kubelet and keeps its rules when the agent stops. Its text changes with the rules. */
export function buildMetadataGuardUnit(): string {
  return `# Rules ${createHash('sha256').update(buildMetadataRules()).digest('hex')}
[Unit]
Description=Keeps pods away from the metadata service of the cloud
Before=kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/nft --file ${METADATA_GUARD_RULES}
ExecStop=-/usr/sbin/nft delete table ${TABLE}
${SERVICE_SANDBOX}
CapabilityBoundingSet=CAP_NET_ADMIN
RestrictAddressFamilies=AF_NETLINK
`;
}

/** Loads or removes the rules. Call it before the kubelet starts. */
export async function ensureMetadataGuard(
  { files, units }: Pick<SystemPorts, 'files' | 'units'>,
  isEnabled: boolean,
  signal: AbortSignal,
): Promise<void> {
  if (!isEnabled) return units.stop(METADATA_GUARD_UNIT, signal);
  await files.makeDirectory(dirname(METADATA_GUARD_RULES));
  await files.writeAtomic(METADATA_GUARD_RULES, buildMetadataRules());
  await ensureUnit(units, { unit: METADATA_GUARD_UNIT, content: buildMetadataGuardUnit() }, signal);
}
