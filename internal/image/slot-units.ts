import type { CpioEntry } from './cpio.ts';

/**
 * systemd-boot names the image in this EFI variable if it counts the tries of this image (systemd-bless-boot.service(8)). After the agent
 * has confirmed an image, nothing counts.
 */
const COUNTED = '/sys/firmware/efi/efivars/LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f';
/** The agent listens there once its state disk is open, and an ordered reset or recovery is done. */
const AGENT_SOCKET = '/run/cluster/agent.sock';
/**
 * Exists while the agent waits for the cluster share of a state disk whose node share the TPM has released, and the cluster has not refused
 * it to this machine.
 */
const AWAITS_SHARE = '/run/cluster/locked-disk/awaits-share';
/**
 * Longer than `TimeoutStartSec` of bootstrapper.service, which the agent extends only while it opens or formats the state disk. After that
 * time the machine restarts, which costs the image one of its tries.
 */
const DEADLINE = '45min';
/** When the machine looks again whether its agent still waits for the cluster. */
const AGAIN = '15min';
/** An agent that has just got its share waits no more, but does not listen yet either: it opens the disk, and starts again without its keys. */
const OPENING_S = 300;

const UNITS: Readonly<Record<string, string>> = {
  'boot.mount': `[Unit]
Description=Boot partition
ConditionPathExists=${COUNTED}
StopWhenUnneeded=yes

[Mount]
What=/dev/disk/by-partlabel/cluster-boot
Where=/boot
Type=vfat
Options=umask=0077,nosuid,nodev,noexec
`,
  'cluster-image-confirm.path': `[Unit]
Description=Wait for the agent before this image is confirmed
ConditionPathExists=${COUNTED}

[Path]
PathExists=${AGENT_SOCKET}
`,
  'cluster-image-confirm.service': `[Unit]
Description=Confirm this image, so that later boots start it too
ConditionPathExists=${COUNTED}
Requires=boot.mount
After=boot.mount

[Service]
Type=oneshot
LimitCORE=0
ExecStart=/usr/lib/systemd/systemd-bless-boot --path=/boot good
ExecStartPost=/usr/bin/systemctl stop cluster-image-confirm.path cluster-image-deadline.timer cluster-image-deadline.service
`,
  'cluster-image-deadline.timer': `[Unit]
Description=Time limit of an image that is not confirmed
ConditionPathExists=${COUNTED}

[Timer]
OnBootSec=${DEADLINE}
OnUnitInactiveSec=${AGAIN}
`,
  'cluster-image-deadline.service': `[Unit]
Description=Restart, because the agent has not started with this image

[Service]
Type=oneshot
LimitCORE=0
ExecCondition=/usr/bin/test ! -e ${AWAITS_SHARE}
ExecStartPre=/usr/bin/sleep ${OPENING_S}
ExecStart=/usr/bin/systemctl reboot
`,
};

/** The units that are started at each boot. */
export const SLOT_UNITS: readonly string[] = ['cluster-image-confirm.path', 'cluster-image-deadline.timer'];

/**
 * The units that confirm an image once the agent listens, and restart a machine on which it does not:
 *
 * ```
 *  agent.sock exists ─▶ cluster-image-confirm ─▶ rename cluster-2+2-1.efi to cluster-2.efi
 *  45 minutes ────────▶ cluster-image-deadline ─▶ restart ─▶ systemd-boot: one try less, or the other image
 *                            ├ awaits-share exists: look again after 15 minutes
 *                            └ otherwise after 5 more minutes, which cluster-image-confirm ends
 * ```
 */
export function slotUnits(): readonly CpioEntry[] {
  return Object.entries(UNITS).map(([name, text]): CpioEntry => {
    return { kind: 'file', path: `usr/lib/systemd/system/${name}`, mode: 0o644, content: Buffer.from(text) };
  });
}
