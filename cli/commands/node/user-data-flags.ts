import { Option } from 'commander';

export const PACKAGE = 'Debian package of the agent: https://… or file:///PATH';
export const PACKAGE_SHA256 = 'SHA-256 of the package; required with https';

/** Whether a command prints cloud-init user data or the provisioning file in it. */
export function formatOption(byDefault: 'cloud-init' | 'provisioning'): Option {
  return new Option('--format <format>', 'complete user data, or only the provisioning file')
    .choices(['cloud-init', 'provisioning'])
    .default(byDefault);
}
