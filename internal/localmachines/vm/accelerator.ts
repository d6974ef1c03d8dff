import type { HostPorts } from '../host/host-ports.ts';
import { FIRMWARE, QEMU, type Accelerator } from './qemu-command.ts';

const DEVICE = '/dev/kvm';
const PROBE_MS = 60_000;
/** The firmware prints it on the console when it looks for something to boot. */
const FIRMWARE_RUNS = 'BdsDxe';

/** Runs the program that it gets for at most 20 s. Succeeds when the console of the machine shows its first argument. */
const PROBE = `text=$1; shift
console=$(mktemp) || exit 1
"$@" -serial "file:$console" > /dev/null 2>&1 < /dev/null &
machine=$!
found=1
tries=0
while [ $tries -lt 100 ] && kill -0 $machine 2> /dev/null; do
  if grep -q "$text" "$console"; then found=0; break; fi
  tries=$((tries + 1))
  sleep 0.2
done
kill -KILL $machine 2> /dev/null
wait $machine 2> /dev/null
rm -f "$console"
exit $found`;

/**
 * Starts the firmware of a machine without disks under KVM, and accepts KVM only if the firmware prints something. The device
 * exists on hosts where KVM does not work: in a container, and in a virtual machine whose host does not pass it on.
 */
export async function findAccelerator(host: HostPorts, signal: AbortSignal): Promise<Accelerator> {
  if ((await host.files.stat(DEVICE)) === undefined) return 'tcg';
  // prettier-ignore
  const machine = [
    QEMU, '-machine', 'q35,smm=off', '-accel', 'kvm', '-cpu', 'host', '-m', '256', '-nodefaults', '-no-user-config', '-display', 'none',
    '-drive', `if=pflash,format=raw,unit=0,readonly=on,file=${FIRMWARE.code}`,
    '-drive', `if=pflash,format=raw,unit=1,snapshot=on,file=${FIRMWARE.variables}`,
  ];
  const { exitCode } = await host.commands.run({
    argv: ['sh', '-c', PROBE, 'sh', FIRMWARE_RUNS, ...machine],
    okExitCodes: [0, 1],
    timeoutMs: PROBE_MS,
    signal,
  });
  return exitCode === 0 ? 'kvm' : 'tcg';
}
