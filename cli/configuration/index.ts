/**
 * The configuration that a cluster keeps: show it, apply a file to it, edit it. A file is merged three ways (last applied,
 * file, cluster), so that it never reverts what somebody else has changed.
 */
export { runConfigApply, runConfigEdit, type ApplyOptions } from './apply-configuration.ts';
export {
  fileOrClusterConfiguration,
  readCurrentConfiguration,
  runConfigShow,
  type CurrentConfiguration,
} from './current-configuration.ts';
export { readLastApplied, saveLastApplied } from './last-applied.ts';
export { requireSignedConfiguration } from './signed-configuration.ts';
export { ConfigurationError, configurationErrors } from './errors.ts';
