// What an answer says, in words.

const UNIT = "\u00a0"; // between a number and its unit, which stay together

// never a hundred or zero: no finite number of questions shows that
export function percent(share) {
  const shown = Math.round(100 * share);
  return shown >= 100 ? `over 99${UNIT}%` : shown <= 0 ? `under 1${UNIT}%` : `${shown}${UNIT}%`;
}

export function headline(answer) {
  const { found, probability } = answer;
  if (answer.no_match) return "Nothing to compare with";
  if (answer.trouble) return "This photo could not be read";
  if (found) return `${probability >= 0.9 ? "Very likely here" : probability >= 0.66 ? "Likely here" : "More likely here than not"}: ${percent(probability)}`;
  if (probability >= 0.5) return `Not sure enough to say: ${percent(probability)}`;
  return probability < 0.2 ? "Not in this map" : "Probably not in this map";
}

export const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}.`;

export function metres(length) {
  if (length >= 1000) return `${(length / 1000).toFixed(length < 10_000 ? 1 : 0)}${UNIT}km`;
  return length < 1 ? `less than 1${UNIT}m` : `${length.toFixed(0)}${UNIT}m`;
}

// of a length that is worth its centimetres
const closely = (length) => (length >= 10 ? metres(length) : `${length < 0.01 ? "less than 0.01" : length.toFixed(2)}${UNIT}m`);
const SURE = 0.5; // probability from which on a pose is relied on

export const reliable = (pose) => pose.probability === null || pose.probability >= SURE;

// what is known of the camera itself; nothing where it was not asked for
export function poseWords({ pose, no_pose: why }) {
  if (!pose) return why ? `No camera pose: ${why}.` : "";
  const off = Math.sqrt(pose.covariance[0][0] + pose.covariance[1][1] + pose.covariance[2][2]);
  const agree = `${pose.inliers} ${pose.inliers === 1 ? "keypoint agrees" : "keypoints agree"}`;
  const said = [`${closely(off)} (1${UNIT}σ)`, agree, pose.probability === null ? "how sure is not known" : percent(pose.probability)];
  const lens = pose.fov_estimated ? ` Its field of view, ${Math.round(pose.fov)}°, was estimated, too.` : "";
  return `Camera pose${reliable(pose) ? "" : ", not to be relied on"}: ${said.join(", ")}.${lens}`;
}

// where a pose is on the map, by the axes of the map's poses that point east and north [m, deg]; null: not to be told
export function poseOnMap({ pose, found, position, heading }, info) {
  if (!pose || !found) return null;
  const { fov } = pose, sure = reliable(pose), axes = info.poses?.axes;
  if (!axes) return heading === null ? null : { ...position, heading, fov, sure };
  const along = (axis, to) => axis[0] * to[0] + axis[1] * to[1] + axis[2] * to[2];
  const [w, x, y, z] = pose.quaternion;
  const ahead = [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)];
  const turned = (Math.atan2(along(axes.east, ahead), along(axes.north, ahead)) * 180) / Math.PI;
  return { easting: along(axes.east, pose.centre), northing: along(axes.north, pose.centre), heading: (turned + 360) % 360, fov, sure };
}

const WINDS = ["north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west"];
export const named = (image) => image.split("/").at(-1); // without its folder
export const facing = (heading) => `${WINDS[Math.round(heading / 45) % 8]} (${Math.round(heading) % 360}°)`;

export function coordinates(position) {
  if (position.latitude === null || position.latitude === undefined) {
    return `${position.easting.toFixed(1)} east, ${position.northing.toFixed(1)} north`;
  }
  return `${position.latitude.toFixed(6)}, ${position.longitude.toFixed(6)}`;
}

export const apart = (a, b) => Math.hypot(a.easting - b.easting, a.northing - b.northing);

// how a match speaks for the place: only near the answer does an overlap mean anything
export function matchFacts(answer, match) {
  const facts = [];
  const far = answer.position ? apart(match.position, answer.position) : 0;
  const same = answer.found && far <= answer.radius;
  if (same && match.overlap) facts.push(`Shares about ${percent(match.overlap.share)} of the view`);
  if (match.verified !== null && match.verified !== undefined) facts.push(`${match.verified} ${match.verified === 1 ? "point agrees" : "points agree"}`);
  if (answer.found) facts.push(same ? (far < 1 ? "At the same spot" : `${metres(far)} away`) : `Another place, ${metres(far)} away`);
  return { same, facts };
}
