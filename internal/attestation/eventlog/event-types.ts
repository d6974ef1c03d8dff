/** Names of event types for tables (TCG PC Client Platform Firmware Profile 1.06, 10.4.1, EV_…). */
const NAMES: Readonly<Record<number, string>> = {
  0x00: 'preboot-cert',
  0x01: 'post-code',
  0x03: 'no-action',
  0x04: 'separator',
  0x05: 'action',
  0x06: 'event-tag',
  0x07: 'crtm-contents',
  0x08: 'crtm-version',
  0x09: 'cpu-microcode',
  0x0a: 'platform-config-flags',
  0x0b: 'table-of-devices',
  0x0c: 'compact-hash',
  0x0d: 'initial-program-load',
  0x0e: 'initial-program-load-partition',
  0x0f: 'nonhost-code',
  0x10: 'nonhost-config',
  0x11: 'nonhost-info',
  0x12: 'omit-boot-device-events',
  0x13: 'post-code-2',
  0x80000001: 'efi-variable-driver-config',
  0x80000002: 'efi-variable-boot',
  0x80000003: 'efi-boot-services-application',
  0x80000004: 'efi-boot-services-driver',
  0x80000005: 'efi-runtime-services-driver',
  0x80000006: 'efi-gpt-event',
  0x80000007: 'efi-action',
  0x80000008: 'efi-platform-firmware-blob',
  0x80000009: 'efi-handoff-tables',
  0x8000000a: 'efi-platform-firmware-blob-2',
  0x8000000b: 'efi-handoff-tables-2',
  0x8000000c: 'efi-variable-boot-2',
  0x8000000d: 'efi-gpt-event-2',
  0x80000010: 'efi-hcrtm-event',
  0x800000e0: 'efi-variable-authority',
  0x800000e1: 'efi-spdm-firmware-blob',
};

/** An event that is not extended into a register. */
export const EV_NO_ACTION = 0x03;

/** The name of an event type, or its number in hex. */
export function eventTypeName(type: number): string {
  return NAMES[type] ?? `0x${type.toString(16)}`;
}
