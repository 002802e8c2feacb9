// The focal length of a photo, the one thing of its file besides the pixels that the service is told: a pose needs it.

const HEAD = 1 << 17; // bytes of a file in which a JPEG has its EXIF data
const EXIF = 0x45786966, IFD = 0x8769, FILM = 0xa405; // "Exif"; tags: more data, [mm] if the photo were of film
const NARROW = 400, WIDE = 5; // [mm] what is beyond is no lens, but a mistake
const DIAGONAL = Math.hypot(36, 24); // [mm] of film

// [mm] on film of 35 mm; null where the file does not tell
async function filmLength(file) {
  try {
    const view = new DataView(await file.slice(0, HEAD).arrayBuffer());
    if (view.getUint16(0) !== 0xffd8) return null;
    let at = 2;
    while (view.getUint16(at) !== 0xffe1 || view.getUint32(at + 4) !== EXIF) {
      if (view.getUint8(at) !== 0xff || view.getUint8(at + 1) === 0xda) return null;
      at += 2 + view.getUint16(at + 2);
    }
    const start = at + 10, little = view.getUint16(start) === 0x4949;
    const value = (list, wanted, wide) => { // of a tag; null: not there
      for (let i = 0; i < view.getUint16(list, little); i += 1) {
        const entry = list + 2 + 12 * i;
        if (view.getUint16(entry, little) === wanted) return wide ? view.getUint32(entry + 8, little) : view.getUint16(entry + 8, little);
      }
      return null;
    };
    const more = value(start + view.getUint32(start + 4, little), IFD, true);
    const film = more === null ? null : value(start + more, FILM, false);
    return film >= WIDE && film <= NARROW ? film : null;
  } catch { return null; } // it ends early, or means something else
}

// as the service is told of a camera, for the photo at this size [pixels]; null: not known
export async function cameraOf(file, width, height) {
  const film = await filmLength(file);
  if (film === null) return null;
  const focal = ((film / DIAGONAL) * Math.hypot(width, height)).toFixed(2);
  return [width, height, focal, focal, width / 2, height / 2].join(",");
}
