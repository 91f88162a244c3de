"""The time zones that Tarantool 2.11 stores in datetimes, by number.

`ABBREVIATIONS` lists numbers, names and offsets in minutes; `?` stands for an abbreviation with several meanings, which
is not accepted. `ZONES` lists the zones of the time zone database, one in each line: number, name, and other names of
the zone.
"""

from typing import Final

ABBREVIATIONS: Final = """
1 A +60, 2 B +120, 3 C +180, 4 D +240, 5 E +300, 6 F +360, 7 G +420, 8 H +480, 9 I +540, 10 K +600, 11 L +660
12 M +720, 13 N -60, 14 O -120, 15 P -180, 16 Q -240, 17 R -300, 18 S -360, 19 T -420, 20 U -480, 21 V -540
22 W -600, 23 X -660, 24 Y -720, 25 Z +0, 32 AT ?, 40 BT ?, 48 CT ?, 56 ET ?, 64 GT +0, 72 IT ?, 80 KT +540
88 MT ?, 96 PT ?, 104 ST +780, 112 UT +0, 120 WT +0, 128 ACT ?, 129 ADT ?, 130 AET ?, 131 AFT +270, 132 AMT ?
133 AoE -720, 134 ART -180, 135 AST ?, 136 AZT +240, 144 BDT ?, 145 BNT +480, 146 BOT -240, 147 BRT -180
148 BST ?, 149 BTT +360, 152 CAT +120, 153 CCT +390, 154 CDT ?, 155 CET +60, 156 CIT -300, 157 CKT -600
158 CLT -180, 159 COT -300, 160 CST ?, 161 CVT -60, 162 CXT +420, 168 EAT +180, 169 ECT ?, 170 EDT ?
171 EET +120, 172 EGT -60, 173 EST ?, 176 FET +180, 177 FJT +720, 178 FKT -240, 179 FNT -120, 184 GET +240
185 GFT -180, 186 GMT +0, 187 GST ?, 188 GYT -240, 192 HAA -180, 193 HAC -300, 194 HAE -240, 195 HAP -420
196 HAR -360, 197 HAT -90, 198 HDT -540, 199 HKT +480, 200 HLV -210, 201 HNA -240, 202 HNC -360, 203 HNE -300
204 HNP -480, 205 HNR -420, 206 HNT -150, 207 HST -600, 208 ICT +420, 209 IDT ?, 210 IOT +360, 211 IST ?
216 JST +540, 224 KGT +360, 225 KIT +300, 226 KST +540, 232 MCK +180, 233 MDT -360, 234 MEZ +60, 235 MHT +720
236 MMT +390, 237 MSD +240, 238 MSK +180, 239 MST ?, 240 MUT +240, 241 MVT +300, 242 MYT +480, 248 NCT +660
249 NDT -90, 250 NFT +660, 251 NPT +345, 252 NRT +720, 253 NST -150, 254 NUT -660, 256 OEZ +120, 264 PDT -420
265 PET -300, 266 PGT +600, 267 PHT +480, 268 PKT +300, 269 PST ?, 270 PWT +540, 271 PYT ?, 272 RET +240
280 SBT +660, 281 SCT +240, 282 SGT +480, 283 SRT -180, 284 SST ?, 288 TFT +300, 289 TJT +300, 290 TKT +780
291 TLT +540, 292 TMT +300, 293 TOT +780, 294 TRT +180, 295 TVT +720, 296 UTC +0, 297 UYT -180, 298 UZT +300
304 VET -210, 305 VUT +660, 312 WAT ?, 313 WDT +540, 314 WET +0, 315 WEZ +0, 316 WFT +720, 317 WGT -180
318 WIB +420, 319 WIT +540, 320 WST ?, 328 ACDT +630, 329 ACST +570, 330 ADST ?, 331 AEDT +660, 332 AEST +600
333 AKDT -480, 334 AKST -540, 335 ALMT +360, 336 AMDT +300, 337 AMST ?, 338 ANAT +720, 339 AQTT +300
340 AWDT +540, 341 AWST +480, 342 AZOT -60, 343 AZST +300, 344 BDST +60, 345 BRST -120, 352 CAST +480
353 CDST ?, 354 CEDT +120, 355 CEST +120, 356 CHOT +480, 357 ChST +600, 358 CHUT +600, 359 CIST -300
360 CLDT -180, 361 CLST ?, 368 DAVT +420, 369 DDUT +600, 376 EADT -300, 377 EAST -300, 378 ECST +120, 379 EDST ?
380 EEDT +180, 381 EEST +180, 382 EGST +0, 384 FJDT +780, 385 FJST +780, 386 FKDT -180, 387 FKST ?
392 GALT -360, 393 GAMT -540, 394 GILT +720, 400 HADT -540, 401 HAST -600, 402 HOVT +420, 408 IRDT +270
409 IRKT +480, 410 IRST ?, 416 KOST +660, 417 KRAT +420, 418 KUYT +240, 424 LHDT +660, 425 LHST +630
426 LINT +840, 432 MAGT +600, 433 MART -510, 434 MAWT +300, 435 MDST -360, 436 MESZ +120, 440 NFDT +720
441 NOVT +360, 442 NZDT +780, 443 NZST +720, 448 OESZ +180, 449 OMST +360, 450 ORAT +300, 456 PDST -420
457 PETT +720, 458 PHOT +780, 459 PMDT -120, 460 PMST -180, 461 PONT +660, 462 PYST ?, 464 QYZT +360
472 ROTT -180, 480 SAKT +600, 481 SAMT +240, 482 SAST +120, 483 SRET +660, 484 SYOT +180, 488 TAHT -600
489 TOST +840, 496 ULAT +480, 497 UYST -120, 504 VLAT +600, 505 VOST +360, 512 WAKT +720, 513 WAST +120
514 WEDT +60, 515 WEST +60, 516 WESZ +60, 517 WGST -120, 518 WITA +480, 520 YAKT +540, 521 YAPT +600
522 YEKT +300, 528 ACWST +525, 529 ANAST +720, 530 AZODT +0, 531 AZOST ?, 536 CHADT +825, 537 CHAST +765
538 CHODT +540, 539 CHOST +540, 540 CIDST -240, 544 EASST -300, 545 EFATE +660, 552 HOVDT +480, 553 HOVST +480
560 IRKST +540, 568 KRAST +480, 576 MAGST +720, 584 NACDT -300, 585 NACST -360, 586 NAEDT -240, 587 NAEST -300
588 NAMDT -360, 589 NAMST -420, 590 NAPDT -420, 591 NAPST -480, 592 NOVST +420, 600 OMSST +420, 608 PETST +720
616 SAMST +240, 624 ULAST +540, 632 VLAST +660, 640 WARST -180, 648 YAKST +600, 649 YEKST +360, 656 CHODST +540
664 HOVDST +480
"""

ZONES: Final = """
672 Africa/Abidjan Africa/Accra Africa/Bamako Africa/Banjul Africa/Conakry Africa/Dakar Africa/Freetown Africa/Lome \
    Africa/Nouakchott Africa/Ouagadougou Africa/Timbuktu Atlantic/St_Helena
673 Africa/Algiers
674 Africa/Bissau
675 Africa/Cairo Egypt
676 Africa/Casablanca
677 Africa/Ceuta
678 Africa/El_Aaiun
679 Africa/Johannesburg Africa/Maseru Africa/Mbabane
680 Africa/Juba
681 Africa/Khartoum
682 Africa/Lagos Africa/Bangui Africa/Brazzaville Africa/Douala Africa/Kinshasa Africa/Libreville Africa/Luanda \
    Africa/Malabo Africa/Niamey Africa/Porto-Novo
683 Africa/Maputo Africa/Blantyre Africa/Bujumbura Africa/Gaborone Africa/Harare Africa/Kigali Africa/Lubumbashi \
    Africa/Lusaka
684 Africa/Monrovia
685 Africa/Nairobi Africa/Addis_Ababa Africa/Asmara Africa/Asmera Africa/Dar_es_Salaam Africa/Djibouti \
    Africa/Kampala Africa/Mogadishu Indian/Antananarivo Indian/Comoro Indian/Mayotte
686 Africa/Ndjamena
687 Africa/Sao_Tome
688 Africa/Tripoli Libya
689 Africa/Tunis
690 Africa/Windhoek
691 America/Adak America/Atka US/Aleutian
692 America/Anchorage US/Alaska
693 America/Araguaina
694 America/Argentina/Buenos_Aires America/Buenos_Aires
695 America/Argentina/Catamarca America/Argentina/ComodRivadavia America/Catamarca
696 America/Argentina/Cordoba America/Cordoba America/Rosario
697 America/Argentina/Jujuy America/Jujuy
698 America/Argentina/La_Rioja
699 America/Argentina/Mendoza America/Mendoza
700 America/Argentina/Rio_Gallegos
701 America/Argentina/Salta
702 America/Argentina/San_Juan
703 America/Argentina/San_Luis
704 America/Argentina/Tucuman
705 America/Argentina/Ushuaia
706 America/Asuncion
707 America/Bahia
708 America/Bahia_Banderas
709 America/Barbados
710 America/Belem
711 America/Belize
712 America/Boa_Vista
713 America/Bogota
714 America/Boise
715 America/Cambridge_Bay
716 America/Campo_Grande
717 America/Cancun
718 America/Caracas
719 America/Cayenne
720 America/Chicago US/Central
721 America/Chihuahua
722 America/Costa_Rica
723 America/Cuiaba
724 America/Danmarkshavn
725 America/Dawson
726 America/Dawson_Creek
727 America/Denver America/Shiprock Navajo US/Mountain
728 America/Detroit US/Michigan
729 America/Edmonton Canada/Mountain
730 America/Eirunepe
731 America/El_Salvador
732 America/Fort_Nelson
733 America/Fortaleza
734 America/Glace_Bay
735 America/Goose_Bay
736 America/Grand_Turk
737 America/Guatemala
738 America/Guayaquil
739 America/Guyana
740 America/Halifax Canada/Atlantic
741 America/Havana Cuba
742 America/Hermosillo
743 America/Indiana/Indianapolis America/Fort_Wayne America/Indianapolis US/East-Indiana
744 America/Indiana/Knox America/Knox_IN US/Indiana-Starke
745 America/Indiana/Marengo
746 America/Indiana/Petersburg
747 America/Indiana/Tell_City
748 America/Indiana/Vevay
749 America/Indiana/Vincennes
750 America/Indiana/Winamac
751 America/Inuvik
752 America/Iqaluit
753 America/Jamaica Jamaica
754 America/Juneau
755 America/Kentucky/Louisville America/Louisville
756 America/Kentucky/Monticello
757 America/La_Paz
758 America/Lima
759 America/Los_Angeles US/Pacific
760 America/Maceio
761 America/Managua
762 America/Manaus Brazil/West
763 America/Martinique
764 America/Matamoros
765 America/Mazatlan Mexico/BajaSur
766 America/Menominee
767 America/Merida
768 America/Metlakatla
769 America/Mexico_City Mexico/General
770 America/Miquelon
771 America/Moncton
772 America/Monterrey
773 America/Montevideo
774 America/New_York US/Eastern
775 America/Nipigon
776 America/Nome
777 America/Noronha Brazil/DeNoronha
778 America/North_Dakota/Beulah
779 America/North_Dakota/Center
780 America/North_Dakota/New_Salem
781 America/Nuuk America/Godthab
782 America/Ojinaga
783 America/Panama America/Atikokan America/Cayman America/Coral_Harbour
784 America/Pangnirtung
785 America/Paramaribo
786 America/Phoenix America/Creston US/Arizona
787 America/Port-au-Prince
788 America/Porto_Velho
789 America/Puerto_Rico America/Anguilla America/Antigua America/Aruba America/Blanc-Sablon America/Curacao \
    America/Dominica America/Grenada America/Guadeloupe America/Kralendijk America/Lower_Princes America/Marigot \
    America/Montserrat America/Port_of_Spain America/St_Barthelemy America/St_Kitts America/St_Lucia \
    America/St_Thomas America/St_Vincent America/Tortola America/Virgin
790 America/Punta_Arenas
791 America/Rainy_River
792 America/Rankin_Inlet
793 America/Recife
794 America/Regina Canada/Saskatchewan
795 America/Resolute
796 America/Rio_Branco America/Porto_Acre Brazil/Acre
797 America/Santarem
798 America/Santiago Chile/Continental
799 America/Santo_Domingo
800 America/Sao_Paulo Brazil/East
801 America/Scoresbysund
802 America/Sitka
803 America/St_Johns Canada/Newfoundland
804 America/Swift_Current
805 America/Tegucigalpa
806 America/Thule
807 America/Thunder_Bay
808 America/Tijuana America/Ensenada America/Santa_Isabel Mexico/BajaNorte
809 America/Toronto America/Montreal America/Nassau Canada/Eastern
810 America/Vancouver Canada/Pacific
811 America/Whitehorse Canada/Yukon
812 America/Winnipeg Canada/Central
813 America/Yakutat
814 America/Yellowknife
815 Antarctica/Casey
816 Antarctica/Davis
817 Antarctica/Macquarie
818 Antarctica/Mawson
819 Antarctica/Palmer
820 Antarctica/Rothera
821 Antarctica/Troll
822 Antarctica/Vostok
823 Asia/Almaty
824 Asia/Amman
825 Asia/Anadyr
826 Asia/Aqtau
827 Asia/Aqtobe
828 Asia/Ashgabat Asia/Ashkhabad
829 Asia/Atyrau
830 Asia/Baghdad
831 Asia/Baku
832 Asia/Bangkok Asia/Phnom_Penh Asia/Vientiane
833 Asia/Barnaul
834 Asia/Beirut
835 Asia/Bishkek
836 Asia/Brunei
837 Asia/Chita
838 Asia/Choibalsan
839 Asia/Colombo
840 Asia/Damascus
841 Asia/Dhaka Asia/Dacca
842 Asia/Dili
843 Asia/Dubai Asia/Muscat
844 Asia/Dushanbe
845 Asia/Famagusta
846 Asia/Gaza
847 Asia/Hebron
848 Asia/Ho_Chi_Minh Asia/Saigon
849 Asia/Hong_Kong Hongkong
850 Asia/Hovd
851 Asia/Irkutsk
852 Asia/Jakarta
853 Asia/Jayapura
854 Asia/Jerusalem Asia/Tel_Aviv Israel
855 Asia/Kabul
856 Asia/Kamchatka
857 Asia/Karachi
858 Asia/Kathmandu Asia/Katmandu
859 Asia/Khandyga
860 Asia/Kolkata Asia/Calcutta
861 Asia/Krasnoyarsk
862 Asia/Kuala_Lumpur
863 Asia/Kuching
864 Asia/Macau Asia/Macao
865 Asia/Magadan
866 Asia/Makassar Asia/Ujung_Pandang
867 Asia/Manila
868 Asia/Nicosia Europe/Nicosia
869 Asia/Novokuznetsk
870 Asia/Novosibirsk
871 Asia/Omsk
872 Asia/Oral
873 Asia/Pontianak
874 Asia/Pyongyang
875 Asia/Qatar Asia/Bahrain
876 Asia/Qostanay
877 Asia/Qyzylorda
878 Asia/Riyadh Antarctica/Syowa Asia/Aden Asia/Kuwait
879 Asia/Sakhalin
880 Asia/Samarkand
881 Asia/Seoul ROK
882 Asia/Shanghai Asia/Chongqing Asia/Chungking Asia/Harbin PRC
883 Asia/Singapore Singapore
884 Asia/Srednekolymsk
885 Asia/Taipei ROC
886 Asia/Tashkent
887 Asia/Tbilisi
888 Asia/Tehran Iran
889 Asia/Thimphu Asia/Thimbu
890 Asia/Tokyo Japan
891 Asia/Tomsk
892 Asia/Ulaanbaatar Asia/Ulan_Bator
893 Asia/Urumqi Asia/Kashgar
894 Asia/Ust-Nera
895 Asia/Vladivostok
896 Asia/Yakutsk
897 Asia/Yangon Asia/Rangoon
898 Asia/Yekaterinburg
899 Asia/Yerevan
900 Atlantic/Azores
901 Atlantic/Bermuda
902 Atlantic/Canary
903 Atlantic/Cape_Verde
904 Atlantic/Faroe Atlantic/Faeroe
905 Atlantic/Madeira
906 Atlantic/Reykjavik Iceland
907 Atlantic/South_Georgia
908 Atlantic/Stanley
909 Australia/Adelaide Australia/South
910 Australia/Brisbane Australia/Queensland
911 Australia/Broken_Hill Australia/Yancowinna
912 Australia/Darwin Australia/North
913 Australia/Eucla
914 Australia/Hobart Australia/Currie Australia/Tasmania
915 Australia/Lindeman
916 Australia/Lord_Howe Australia/LHI
917 Australia/Melbourne Australia/Victoria
918 Australia/Perth Australia/West
919 Australia/Sydney Australia/ACT Australia/Canberra Australia/NSW
920 Etc/GMT Etc/GMT+0 Etc/GMT-0 Etc/GMT0 Etc/Greenwich GMT+0 GMT-0 GMT0 Greenwich
921 Etc/UTC Etc/UCT Etc/Universal Etc/Zulu UCT Universal Zulu
922 Europe/Amsterdam
923 Europe/Andorra
924 Europe/Astrakhan
925 Europe/Athens
926 Europe/Belgrade Europe/Ljubljana Europe/Podgorica Europe/Sarajevo Europe/Skopje Europe/Zagreb
927 Europe/Berlin
928 Europe/Brussels
929 Europe/Bucharest
930 Europe/Budapest
931 Europe/Chisinau Europe/Tiraspol
932 Europe/Copenhagen
933 Europe/Dublin Eire
934 Europe/Gibraltar
935 Europe/Helsinki Europe/Mariehamn
936 Europe/Istanbul Asia/Istanbul Turkey
937 Europe/Kaliningrad
938 Europe/Kiev
939 Europe/Kirov
940 Europe/Lisbon Portugal
941 Europe/London Europe/Belfast Europe/Guernsey Europe/Isle_of_Man Europe/Jersey GB GB-Eire
942 Europe/Luxembourg
943 Europe/Madrid
944 Europe/Malta
945 Europe/Minsk
946 Europe/Monaco
947 Europe/Moscow W-SU
948 Europe/Oslo Arctic/Longyearbyen Atlantic/Jan_Mayen
949 Europe/Paris
950 Europe/Prague Europe/Bratislava
951 Europe/Riga
952 Europe/Rome Europe/San_Marino Europe/Vatican
953 Europe/Samara
954 Europe/Saratov
955 Europe/Simferopol
956 Europe/Sofia
957 Europe/Stockholm
958 Europe/Tallinn
959 Europe/Tirane
960 Europe/Ulyanovsk
961 Europe/Uzhgorod
962 Europe/Vienna
963 Europe/Vilnius
964 Europe/Volgograd
965 Europe/Warsaw Poland
966 Europe/Zaporozhye
967 Europe/Zurich Europe/Busingen Europe/Vaduz
968 Indian/Chagos
969 Indian/Christmas
970 Indian/Cocos
971 Indian/Kerguelen
972 Indian/Mahe
973 Indian/Maldives
974 Indian/Mauritius
975 Indian/Reunion
976 Pacific/Apia
977 Pacific/Auckland Antarctica/McMurdo Antarctica/South_Pole NZ
978 Pacific/Bougainville
979 Pacific/Chatham NZ-CHAT
980 Pacific/Chuuk Pacific/Truk Pacific/Yap
981 Pacific/Easter Chile/EasterIsland
982 Pacific/Efate
983 Pacific/Fakaofo
984 Pacific/Fiji
985 Pacific/Funafuti
986 Pacific/Galapagos
987 Pacific/Gambier
988 Pacific/Guadalcanal
989 Pacific/Guam Pacific/Saipan
990 Pacific/Honolulu Pacific/Johnston US/Hawaii
991 Pacific/Kanton Pacific/Enderbury
992 Pacific/Kiritimati
993 Pacific/Kosrae
994 Pacific/Kwajalein Kwajalein
995 Pacific/Majuro
996 Pacific/Marquesas
997 Pacific/Nauru
998 Pacific/Niue
999 Pacific/Norfolk
1000 Pacific/Noumea
1001 Pacific/Pago_Pago Pacific/Midway Pacific/Samoa US/Samoa
1002 Pacific/Palau
1003 Pacific/Pitcairn
1004 Pacific/Pohnpei Pacific/Ponape
1005 Pacific/Port_Moresby Antarctica/DumontDUrville
1006 Pacific/Rarotonga
1007 Pacific/Tahiti
1008 Pacific/Tarawa
1009 Pacific/Tongatapu
1010 Pacific/Wake
1011 Pacific/Wallis
"""
